"""Which classes hpnode's `sample_rate` draws, in NumPy: class c of iteration t by word c % 4 of Philox4x32 with counter
(t, c / 4), under a key made of the seed and the layer's name.

Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011; FNV-1a; splitmix64.
"""
import numpy as np

MASK = 2**64 - 1


def stream_key(seed, layer, purpose):
    key = 0xCBF29CE484222325
    for byte in f"{layer}\0{purpose}".encode():
        key = ((key ^ byte) * 0x100000001B3) & MASK
    key = (key + seed * 0x9E3779B97F4A7C15) & MASK
    key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) & MASK
    return key ^ (key >> 31)


def philox(key, high, low):
    """Four words, of counter (high, low)."""
    c = [low & 0xFFFFFFFF, low >> 32, high & 0xFFFFFFFF, high >> 32]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def drawn(seed, layer, iteration, classes, rate):
    """A bool for each class. @param rate is read as a float32, as a prototxt's is."""
    key, threshold = stream_key(seed, layer, "sample"), int(np.floor(float(np.float32(rate)) * 2**32))
    words = [word for group in range(-(-classes // 4)) for word in philox(key, iteration, group)]
    return np.array(words[:classes]) < threshold
