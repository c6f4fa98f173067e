"""How text becomes terms: the one rule behind `search`, `match_text`, `fuzzy` and `bm25`.

1. A *term character* is any character with the Unicode property Alphabetic or a general category
   N* (letters of every script, vowel signs, digits, numerals such as ² and ½). Everything else
   separates: blanks, punctuation, `_`, quotes, emoji, combining accents (U+0301).
2. A term is a maximal run of term characters, each lower-cased on its own (so no special final
   sigma): `"It's O'Reilly_2"` -> `it s o reilly 2`.
3. Nothing else happens: no stemming, no stop words, no accent folding, no length limit, no
   Unicode normalisation, no word breaking inside a run of Han or Kana.

`search` matches when the text has any term of the query, `match_text` when it has all of them,
`fuzzy` when it has a term whose Levenshtein distance (in characters; a swap counts two) to any
query term is at most `edits`, by default `default_edits(term)`. A query without a term matches
nothing, and so does NULL text.

This is the rule of Lance's `simple` tokenizer with `lower_case` on and every other option off, so
that an index and a scan agree. Python's character tables (Unicode 14) know fewer characters than
Lance's (Unicode 17); this module lists the difference.
"""

from __future__ import annotations

import re

# Term characters that `str.isalnum` of Python 3.11 (Unicode 14) does not know.
_MORE = """
345 363-36f 5b0-5bd 5bf 5c1-5c2 5c4-5c5 5c7 610-61a 64b-657 659-65f 670 6d6-6dc 6e1-6e4 6e7-6e8
6ed 711 730-73f 7a6-7b0 816-817 81b-823 825-827 829-82c 88f 897 8d4-8df 8e3-8e9 8f0-903 93a-93b
93e-94c 94e-94f 955-957 962-963 981-983 9be-9c4 9c7-9c8 9cb-9cc 9d7 9e2-9e3 a01-a03 a3e-a42
a47-a48 a4b-a4c a51 a70-a71 a75 a81-a83 abe-ac5 ac7-ac9 acb-acc ae2-ae3 afa-afc b01-b03 b3e-b44
b47-b48 b4b-b4c b56-b57 b62-b63 b82 bbe-bc2 bc6-bc8 bca-bcc bd7 c00-c04 c3e-c44 c46-c48 c4a-c4c
c55-c56 c5c c62-c63 c81-c83 cbe-cc4 cc6-cc8 cca-ccc cd5-cd6 cdc ce2-ce3 cf3 d00-d03 d3e-d44
d46-d48 d4a-d4c d57 d62-d63 d81-d83 dcf-dd4 dd6 dd8-ddf df2-df3 e31 e34-e3a e4d eb1 eb4-eb9 ebb-
ebc ecd f71-f83 f8d-f97 f99-fbc 102b-1036 1038 103b-103e 1056-1059 105e-1060 1062-1064 1067-106d
1071-1074 1082-108d 108f 109a-109d 1712-1713 1732-1733 1752-1753 1772-1773 17b6-17c8 1885-1886
18a9 1920-192b 1930-1938 1a17-1a1b 1a55-1a5e 1a61-1a74 1abf-1ac0 1acc-1ace 1b00-1b04 1b35-1b43
1b80-1b82 1ba1-1ba9 1bac-1bad 1be7-1bf1 1c24-1c36 1c89-1c8a 1dd3-1df4 24b6-24e9 2de0-2dff
a674-a67b a69e-a69f a7cb-a7cf a7d2 a7d4 a7da-a7dc a7f1 a802 a80b a823-a827 a880-a881 a8b4-a8c3
a8c5 a8ff a926-a92a a947-a952 a980-a983 a9b4-a9bf a9e5 aa29-aa36 aa43 aa4c-aa4d aa7b-aa7d aab0
aab2-aab4 aab7-aab8 aabe aaeb-aaef aaf5 abe3-abea fb1e 10376-1037a 105c0-105f3 10940-10959
10a01-10a03 10a05-10a06 10a0c-10a0f 10d24-10d27 10d40-10d65 10d69 10d6f-10d85 10eab-10eac
10ec2-10ec7 10efa-10efc 11000-11002 11038-11045 11073-11074 11080-11082 110b0-110b8 110c2
11100-11102 11127-11132 11145-11146 11180-11182 111b3-111bf 111ce-111cf 1122c-11234 11237
1123e-11241 112df-112e8 11300-11303 1133e-11344 11347-11348 1134b-1134c 11357 11362-11363
11380-11389 1138b 1138e 11390-113b5 113b7-113c0 113c2 113c5 113c7-113ca 113cc-113cd 113d1 113d3
11435-11441 11443-11445 114b0-114c1 115af-115b5 115b8-115be 115dc-115dd 11630-1163e 11640
116ab-116b5 116d0-116e3 1171d-1172a 1182c-11838 11930-11935 11937-11938 1193b-1193c 11940 11942
119d1-119d7 119da-119df 119e4 11a01-11a0a 11a35-11a39 11a3b-11a3e 11a51-11a5b 11a8a-11a97
11b60-11b67 11bc0-11be0 11bf0-11bf9 11c2f-11c36 11c38-11c3e 11c92-11ca7 11ca9-11cb6 11d31-11d36
11d3a 11d3c-11d3d 11d3f-11d41 11d43 11d47 11d8a-11d8e 11d90-11d91 11d93-11d96 11db0-11ddb
11de0-11de9 11ef3-11ef6 11f00-11f10 11f12-11f3a 11f3e-11f40 11f50-11f59 1342f 13441-13446
13460-143fa 16100-1612e 16130-16139 16d40-16d6c 16d70-16d79 16ea0-16eb8 16ebb-16ed3 16f4f
16f51-16f87 16f8f-16f92 16ff0-16ff6 187f8-187ff 18cff 18d09-18d1e 18d80-18df2 1b132 1b155 1bc9e
1ccf0-1ccf9 1d2c0-1d2d3 1df25-1df2a 1e000-1e006 1e008-1e018 1e01b-1e021 1e023-1e024 1e026-1e02a
1e030-1e06d 1e08f 1e4d0-1e4eb 1e4f0-1e4f9 1e5d0-1e5ed 1e5f0-1e5fa 1e6c0-1e6de 1e6e0-1e6f5
1e6fe-1e6ff 1e947 1f130-1f149 1f150-1f169 1f170-1f189 2b739-2b73f 2cea2-2cead 2ebf0-2ee5d
31350-33479
"""

# Upper-case letters newer than Unicode 14: first, last, distance to the lower-case letter.
_MORE_CASES = (
    (0x1C89, 0x1C89, 1),
    (0xA7CB, 0xA7CB, 0x264 - 0xA7CB),
    (0xA7CC, 0xA7CC, 1),
    (0xA7CE, 0xA7CE, 1),
    (0xA7D2, 0xA7D2, 1),
    (0xA7D4, 0xA7D4, 1),
    (0xA7DA, 0xA7DA, 1),
    (0xA7DC, 0xA7DC, 0x19B - 0xA7DC),
    (0x10D50, 0x10D65, 0x20),
    (0x16EA0, 0x16EB8, 0x1B),
)


def _character_class() -> str:
    ranges = (part.partition("-") for part in _MORE.split())
    return "".join(f"{chr(int(a, 16))}-{chr(int(b or a, 16))}" for a, _, b in ranges)


_TERM = re.compile(rf"(?:[^\W_]|[{_character_class()}])+")
_ASCII_TERM = re.compile(r"[0-9a-z]+")
_LOWER = {code: chr(code + step) for a, b, step in _MORE_CASES for code in range(a, b + 1)}


def terms(text: str) -> list[str]:
    """Every term of the text, in order, repeats included."""
    if text.isascii():
        return _ASCII_TERM.findall(text.lower())
    return [_lower(run) for run in _TERM.findall(text)]


MAX_EDITS = 2


def default_edits(term: str) -> int:
    """The edits that `fuzzy` allows when the query names none; short words must match exactly."""
    return 0 if len(term) <= 2 else 1 if len(term) <= 5 else 2


def within_edits(left: str, right: str, edits: int) -> bool:
    """Levenshtein distance in characters is at most `edits`."""
    if abs(len(left) - len(right)) > edits:
        return False
    above = list(range(len(right) + 1))
    for row, mine in enumerate(left, 1):
        current = [row]
        for column, other in enumerate(right, 1):
            best = min(above[column], current[column - 1]) + 1
            current.append(min(best, above[column - 1] + (mine != other)))
        if min(current) > edits:
            return False
        above = current
    return above[-1] <= edits


def _lower(run: str) -> str:
    return "".join(map(str.lower, run)).translate(_LOWER)
