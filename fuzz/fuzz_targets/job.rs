#![no_main]
sudare_fuzz::target!("job");
