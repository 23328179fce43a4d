"""Seals the file of a secret key after docs/file-format.md, by libsodium (PyNaCl) alone.

    python seal.py clear.key "six random words" > sealed.bin
"""

import struct
import sys

from nacl.bindings import (
    crypto_aead_xchacha20poly1305_ietf_encrypt,
    crypto_pwhash_ALG_ARGON2ID13,
    crypto_pwhash_alg,
)

KIB, PASSES = 8, 1  # Only the library's tests accept costs this low.

file = open(sys.argv[1], "rb").read()
(encoded,) = struct.unpack_from("<Q", file, 48)
header = (64 + encoded + 32 + 63) // 64 * 64
salt, nonce = bytes(range(16)), bytes(range(24))
key = crypto_pwhash_alg(
    32, sys.argv[2].encode(), salt, PASSES, KIB * 1024, crypto_pwhash_ALG_ARGON2ID13
)
clear = b"\x89sealed\n" + struct.pack("<4I", 1, KIB, PASSES, 1) + salt + nonce + file[:header]
content = crypto_aead_xchacha20poly1305_ietf_encrypt(file[header:], clear, nonce, key)
sys.stdout.buffer.write(clear + content)
