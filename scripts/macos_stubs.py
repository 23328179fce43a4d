"""Stubs of macOS libraries, with which zig links for macOS without an SDK.

A stub tells the linker the name of a library and its symbols, as the stubs of an SDK do. The library itself is part
of every macOS. zig contains only the stubs of libSystem.
"""

import pathlib

FRAMEWORKS = "/System/Library/Frameworks/{0}.framework/Versions/{1}/{0}"
# Linked libraries with the symbols in use. Crates name the last three, but use no symbol of them.
LIBRARIES = {
    FRAMEWORKS.format("CoreFoundation", "A"): """
        CFArrayCreate CFDataCreate CFDateCreate CFErrorCopyDescription CFErrorGetCode CFRelease
        CFStringCreateWithBytes CFStringGetBytes CFStringGetCStringPtr CFStringGetLength
        CFTimeZoneCopySystem CFTimeZoneGetName CFTimeZoneResetSystem kCFAbsoluteTimeIntervalSince1970
        kCFAllocatorDefault kCFTypeArrayCallBacks""",
    FRAMEWORKS.format("Security", "A"): """
        SecCertificateCopySubjectSummary SecCertificateCreateWithData SecCopyErrorMessageString
        SecPolicyCreateSSL SecTrustCreateWithCertificates SecTrustEvaluateWithError
        SecTrustSetAnchorCertificates SecTrustSetAnchorCertificatesOnly SecTrustSetOCSPResponse
        SecTrustSetVerifyDate""",
    FRAMEWORKS.format("Foundation", "C"): "",
    FRAMEWORKS.format("SystemConfiguration", "A"): "",
    "/usr/lib/libobjc.A.dylib": "",
}
STUB = """--- !tapi-tbd
tbd-version: 4
targets: [ x86_64-macos, arm64-macos ]
install-name: '{}'
exports:
  - targets: [ x86_64-macos, arm64-macos ]
    symbols: [ {} ]
...
"""


def write(folder):
    """Writes the stubs to a directory, and returns the linker arguments that name it."""
    for library, symbols in LIBRARIES.items():
        name = pathlib.PurePosixPath(library).name.partition(".")[0]
        is_framework = library.startswith("/System")
        path = folder / (f"{name}.framework/{name}.tbd" if is_framework else f"{name}.tbd")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(STUB.format(library, ", ".join(f"_{symbol}" for symbol in symbols.split())))
    return [f"-F{folder}", f"-L{folder}"]
