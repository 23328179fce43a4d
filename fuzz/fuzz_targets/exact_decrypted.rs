#![no_main]
sudare_fuzz::target!("exact_decrypted");
