#![no_main]
sudare_fuzz::target!("schema");
