#![no_main]
sudare_fuzz::target!("part");
