#![no_main]
sudare_fuzz::target!("search_label");
