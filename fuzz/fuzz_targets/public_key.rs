#![no_main]
sudare_fuzz::target!("public_key");
