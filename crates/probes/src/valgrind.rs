//! Requests to Valgrind's memcheck that mark bytes as undefined or defined. Memcheck reports
//! branches and addresses that depend on undefined bytes. Without Valgrind the requests do nothing.
//!
//! A request is a sequence of rotations that leaves the registers unchanged and that Valgrind
//! recognises (its manual, section 3.1, and `valgrind.h`).

/// Code of memcheck's requests on ranges (`MC_`).
const MEMCHECK: usize = (b'M' as usize) << 24 | (b'C' as usize) << 16;
const MAKE_UNDEFINED: usize = MEMCHECK + 1;
const MAKE_DEFINED: usize = MEMCHECK + 2;
/// Asks whether Valgrind runs this process.
const RUNNING: usize = 0x1001;

/// Returns whether Valgrind runs this process.
#[must_use]
pub fn is_running() -> bool {
    request(RUNNING, 0, 0) != 0
}

/// Marks numbers as secret: the program must not depend on them from now on.
pub fn hide<T>(secret: &[T]) {
    hide_range(secret.as_ptr() as usize, size_of_val(secret));
}

pub(crate) fn hide_range(address: usize, bytes: usize) {
    request(MAKE_UNDEFINED, address, bytes);
}

/// Marks bytes as public: the program may depend on them.
pub fn publish(bytes: &[u8]) {
    request(MAKE_DEFINED, bytes.as_ptr() as usize, bytes.len());
}

#[cfg(target_arch = "x86_64")]
fn request(request: usize, address: usize, bytes: usize) -> usize {
    let arguments = [request, address, bytes, 0, 0, 0];
    let mut answer = 0;
    // SAFETY: four rotations by 128 bits in total leave `rdi` unchanged, and exchanging `rbx` with
    // itself does nothing. Under Valgrind `rdx` receives the answer. The arguments are only read.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") answer,
            out("rdi") _,
        );
    }
    answer
}

#[cfg(not(target_arch = "x86_64"))]
fn request(_: usize, _: usize, _: usize) -> usize {
    0
}
