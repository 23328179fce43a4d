#![no_main]
sudare_fuzz::target!("ciphertexts_used");
