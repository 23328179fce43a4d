#![no_main]
sudare_fuzz::target!("transform");
