//! Files in memory, whose bytes may disappear.
//!
//! A read of a mapped page that no longer exists, since the file was truncated or its disk fails,
//! raises the signal `SIGBUS`, which ends the process. A handler maps zero pages there instead and
//! records the loss in the table of mapped files. It calls only `mmap`, `sigaction` and `raise`,
//! reads the table without a lock, and restores `errno`. It is installed once, when the first file
//! is mapped. Signals that do not concern such a file go to the previous handler. A handler that is
//! installed later must pass signals on in the same way.

use super::page_bytes;
use core::{
    ffi::{c_int, c_void},
    mem::MaybeUninit,
    ptr,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence},
};
use std::{
    fs::File,
    io,
    os::fd::AsRawFd,
    sync::{Mutex, PoisonError},
};

/// The bytes of a file, mapped.
pub(in super::super) struct FileBytes {
    start: *const u8,
    len: usize,
    /// `None` for an empty file.
    region: Option<&'static Region>,
}

// SAFETY: the pages are only read, and unmapped by the last owner alone.
unsafe impl Send for FileBytes {}
// SAFETY: as above.
unsafe impl Sync for FileBytes {}

impl FileBytes {
    pub(in super::super) fn new(file: &File) -> io::Result<Self> {
        let too_large = |_| io::Error::from(io::ErrorKind::FileTooLarge);
        let len = usize::try_from(file.metadata()?.len()).map_err(too_large)?;
        if len == 0 {
            return Ok(Self { start: ptr::NonNull::dangling().as_ptr(), len, region: None });
        }
        // Before the mapping exists: its first read can already raise the signal.
        install()?;
        let protection = libc::PROT_READ;
        let flags = libc::MAP_PRIVATE;
        // SAFETY: new private pages, which touch no memory of this process.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let end = start.addr() + len.next_multiple_of(page_bytes());
        Ok(Self { start: start.cast(), len, region: Some(Region::of(start.addr(), end)) })
    }

    pub(in super::super) fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes are mapped as long as `self` exists. Other processes may change the
        // file; any value is a valid `u8`.
        unsafe { core::slice::from_raw_parts(self.start, self.len) }
    }

    /// Returns `true` if all bytes read until now existed.
    pub(in super::super) fn is_intact(&self) -> bool {
        self.region.is_none_or(|region| !region.lost.load(Ordering::Acquire))
    }
}

impl Drop for FileBytes {
    fn drop(&mut self) {
        if let Some(region) = self.region {
            // First: once unmapped, the addresses may belong to another mapping.
            region.forget();
            // SAFETY: mapped with this size, and no longer read.
            unsafe { libc::munmap(self.start.cast_mut().cast(), self.len) };
        }
    }
}

/// Pages of a mapped file. Regions are never freed but reused, because the signal handler may read
/// them at any time.
struct Region {
    /// Odd while the other fields change.
    version: AtomicUsize,
    /// Zero if unused.
    start: AtomicUsize,
    end: AtomicUsize,
    /// `true` if a page was missing.
    lost: AtomicBool,
    next: Option<&'static Region>,
}

/// Head of the list of regions.
static REGIONS: AtomicPtr<Region> = AtomicPtr::new(ptr::null_mut());

/// Held while the table changes. The signal handler takes no lock.
static CHANGING: Mutex<()> = Mutex::new(());

/// Iterates over all regions.
fn regions() -> impl Iterator<Item = &'static Region> {
    // SAFETY: null, or a region that is never freed.
    let first = unsafe { REGIONS.load(Ordering::Acquire).as_ref() };
    core::iter::successors(first, |region| region.next)
}

impl Region {
    /// Returns a region for these pages, reusing a free one.
    fn of(start: usize, end: usize) -> &'static Self {
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = regions().find(|region| region.start.load(Ordering::Relaxed) == 0);
        let region = unused.unwrap_or_else(|| {
            let region = Box::leak(Box::new(Self {
                version: AtomicUsize::new(0),
                start: AtomicUsize::new(0),
                end: AtomicUsize::new(0),
                lost: AtomicBool::new(false),
                next: regions().next(),
            }));
            // Published while still unused, so that the handler never reads a half-written region.
            REGIONS.store(region, Ordering::Release);
            region
        });
        // Before the region gets its new pages: the loss concerned the file before.
        region.lost.store(false, Ordering::Relaxed);
        region.change(start, end);
        region
    }

    /// Marks the region as unused.
    fn forget(&self) {
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        self.change(0, 0);
    }

    fn change(&self, start: usize, end: usize) {
        // An odd version tells the handler, which cannot lock, that the fields are changing.
        self.version.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.start.store(start, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Returns the region's end if `address` is within. Another thread may change a region
    /// meanwhile. That region cannot be the one that contains an address being read.
    fn end_for(&self, address: usize) -> Option<usize> {
        let version = self.version.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Relaxed);
        let end = self.end.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let unchanged =
            version.is_multiple_of(2) && version == self.version.load(Ordering::Relaxed);
        (unchanged && (start..end).contains(&address)).then_some(end)
    }
}

/// The previous handler, and the page size, for our handler.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Installs the handler, once.
fn install() -> io::Result<()> {
    let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    if !BEFORE.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    let mut before = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: reads the current handler, which is written if the call succeeds.
    let before = unsafe {
        if libc::sigaction(libc::SIGBUS, ptr::null(), before.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        before.assume_init()
    };
    PAGE_BYTES.store(page_bytes(), Ordering::Relaxed);
    // SAFETY: plain numbers, for which all zeros is a valid value.
    let mut own: libc::sigaction = unsafe { core::mem::zeroed() };
    own.sa_sigaction = on_sigbus as *const () as usize;
    own.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // Stored before our handler can run.
    BEFORE.store(Box::leak(Box::new(before)), Ordering::Release);
    // SAFETY: the handler may run at any time, in any thread, on a small stack: see its
    // description.
    match unsafe { libc::sigaction(libc::SIGBUS, &raw const own, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Handles the signal.
extern "C" fn on_sigbus(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes a description that is valid during the call. The code does not
    // allocate, lock or unwind, and restores `errno`.
    unsafe {
        let errno = *libc::__errno_location();
        // Positive codes come from the system itself and have an address.
        let of_file = (*info).si_code > 0 && put_zeros((*info).si_addr().addr());
        if !of_file {
            pass_on(signal, info, context);
        }
        *libc::__errno_location() = errno;
    }
}

/// Replaces the pages of a mapped file from `address` on by zero pages, if the address belongs to
/// one. Returns `true` if it does. After a truncation all pages that follow are missing as well.
fn put_zeros(address: usize) -> bool {
    let Some((region, end)) = regions().find_map(|r| Some((r, r.end_for(address)?))) else {
        return false;
    };
    let start = address & !(PAGE_BYTES.load(Ordering::Relaxed) - 1);
    // Set before any thread can read a zero.
    region.lost.store(true, Ordering::Release);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: pages of a mapping of ours, which is only read and stays mapped while it is being
    // read.
    let zeros = unsafe {
        libc::mmap(ptr::without_provenance_mut(start), end - start, libc::PROT_READ, flags, -1, 0)
    };
    zeros != libc::MAP_FAILED
}

/// Does whatever the process would do without our handler.
///
/// # Safety
/// Called with the arguments of a handler, from within it.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: set before our handler was installed, and never freed.
    let Some(before) = (unsafe { BEFORE.load(Ordering::Acquire).as_ref() }) else { return };
    // SAFETY: the previous handler is called as its flags require.
    unsafe {
        match before.sa_sigaction {
            libc::SIG_IGN if (*info).si_code <= 0 => {}
            // The system ends a process that ignores its own signal as well.
            libc::SIG_DFL | libc::SIG_IGN => {
                let mut default: libc::sigaction = core::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const default, ptr::null_mut());
                // Delivered when this handler returns.
                libc::raise(signal);
            }
            handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
                type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
                core::mem::transmute::<usize, Handler>(handler)(signal, info, context);
            }
            handler => {
                core::mem::transmute::<usize, extern "C" fn(c_int)>(handler)(signal);
            }
        }
    }
}
