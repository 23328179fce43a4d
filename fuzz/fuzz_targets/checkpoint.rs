#![no_main]
sudare_fuzz::target!("checkpoint");
