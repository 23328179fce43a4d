#![no_main]
sudare_fuzz::target!("npy");
