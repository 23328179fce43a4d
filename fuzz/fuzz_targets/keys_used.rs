#![no_main]
sudare_fuzz::target!("keys_used");
