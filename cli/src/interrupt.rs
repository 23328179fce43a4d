//! Handler of Ctrl-C.

use crate::passphrase;
use std::process;
use sudare_roles::os::files;

/// Exit status after Ctrl-C.
// Shells report 128 plus the number of the signal. SIGINT is 2.
const INTERRUPTED: i32 = 130;

/// Lets Ctrl-C remove unfinished files and end the process.
pub fn clean_up() {
    // If no handler can be set, the system's default still ends the process.
    let _ = ctrlc::set_handler(|| {
        files::remove_unfinished(|| {
            // A prompt may have hidden typed characters, and the terminal outlives the process.
            passphrase::show_again();
            process::exit(INTERRUPTED)
        })
    });
}
