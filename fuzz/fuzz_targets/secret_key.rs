#![no_main]
sudare_fuzz::target!("secret_key");
