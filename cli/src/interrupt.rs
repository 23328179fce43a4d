//! Handler of Ctrl-C.

use crate::passphrase;
use std::process;
use sudare_roles::files;

/// Exit status after Ctrl-C.
const INTERRUPTED: i32 = 130;

/// Lets Ctrl-C remove unfinished files and end the process.
pub fn clean_up() {
    // Without a handler the process ends as the system has it end.
    let _ = ctrlc::set_handler(|| {
        files::remove_unfinished(|| {
            passphrase::show_again();
            process::exit(INTERRUPTED)
        })
    });
}
