//! The fastest backend of the library for the instruction set that the program is built for.

/// Backends of the usual ring and of the ring of real slots.
#[cfg(feature = "avx2")]
pub use poulpy_cpu_avx::{NTT4x30Avx as Cpu, NTT4x30CIAvx as RealCpu};
/// Backends of the usual ring and of the ring of real slots.
#[cfg(not(feature = "avx2"))]
pub use poulpy_cpu_avx512::{NTT3x42CIIfma as RealCpu, NTT3x42Ifma as Cpu};

pub const INSTRUCTION_SET: &str = if cfg!(feature = "avx2") { "avx2" } else { "avx512ifma" };
