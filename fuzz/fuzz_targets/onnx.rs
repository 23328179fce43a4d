#![no_main]
sudare_fuzz::target!("onnx");
