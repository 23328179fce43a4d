#![no_main]
sudare_fuzz::target!("evaluation_keys");
