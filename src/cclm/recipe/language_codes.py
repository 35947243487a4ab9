"""Language codes: maps two- and three-letter codes with scripts and regions to one ISO 639-3 code."""

import re
from collections.abc import Iterable
from functools import lru_cache

from cclm.errors import DataError

# ISO 639-1 to 639-3 (from Debian's iso-codes).
_TWO_LETTERS = """
aa:aar ab:abk ae:ave af:afr ak:aka am:amh an:arg ar:ara as:asm av:ava ay:aym az:aze ba:bak be:bel bg:bul bi:bis
bm:bam bn:ben bo:bod br:bre bs:bos ca:cat ce:che ch:cha co:cos cr:cre cs:ces cu:chu cv:chv cy:cym da:dan de:deu
dv:div dz:dzo ee:ewe el:ell en:eng eo:epo es:spa et:est eu:eus fa:fas ff:ful fi:fin fj:fij fo:fao fr:fra fy:fry
ga:gle gd:gla gl:glg gn:grn gu:guj gv:glv ha:hau he:heb hi:hin ho:hmo hr:hrv ht:hat hu:hun hy:hye hz:her ia:ina
id:ind ie:ile ig:ibo ii:iii ik:ipk io:ido is:isl it:ita iu:iku ja:jpn jv:jav ka:kat kg:kon ki:kik kj:kua kk:kaz
kl:kal km:khm kn:kan ko:kor kr:kau ks:kas ku:kur kv:kom kw:cor ky:kir la:lat lb:ltz lg:lug li:lim ln:lin lo:lao
lt:lit lu:lub lv:lav mg:mlg mh:mah mi:mri mk:mkd ml:mal mn:mon mr:mar ms:msa mt:mlt my:mya na:nau nb:nob nd:nde
ne:nep ng:ndo nl:nld nn:nno no:nor nr:nbl nv:nav ny:nya oc:oci oj:oji om:orm or:ori os:oss pa:pan pi:pli pl:pol
ps:pus pt:por qu:que rm:roh rn:run ro:ron ru:rus rw:kin sa:san sc:srd sd:snd se:sme sg:sag sh:hbs si:sin sk:slk
sl:slv sm:smo sn:sna so:som sq:sqi sr:srp ss:ssw st:sot su:sun sv:swe sw:swa ta:tam te:tel tg:tgk th:tha ti:tir
tk:tuk tl:tgl tn:tsn to:ton tr:tur ts:tso tt:tat tw:twi ty:tah ug:uig uk:ukr ur:urd uz:uzb ve:ven vi:vie vo:vol
wa:wln wo:wol xh:xho yi:yid yo:yor za:zha zh:zho zu:zul
"""
# ISO 639-2/B codes, and withdrawn two-letter codes that old corpora still use.
_OTHERS = """
alb:sqi arm:hye baq:eus bur:mya chi:zho cze:ces dut:nld fre:fra geo:kat ger:deu gre:ell ice:isl mac:mkd mao:mri
may:msa per:fas rum:ron slo:slk tib:bod wel:cym
in:ind iw:heb ji:yid jw:jav mo:ron
"""
# Columns of the TED talks that name a region. The first one has more text; for Portuguese the paper uses it.
_REGIONS = {"por": ("pt-br",), "zho": ("zh-cn", "zh-tw"), "fra": ("fr-ca",)}
_PREFERRED = {"por": "pt-br", "zho": "zh-cn"}
# Scripts in codes such as az_Latn.
_SCRIPTS = """
arab armn beng cyrl deva ethi geor grek gujr guru hang hans hant hebr jpan khmr knda kore laoo latn mlym mtei mymr
nkoo olck orya sinh taml telu tfng thai tibt
"""

_THREE = dict(pair.split(":") for pair in (_TWO_LETTERS + _OTHERS).split())
_KNOWN = set(_THREE.values())
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SCRIPT = "|".join(_SCRIPTS.split())
_SCRIPT_SUFFIX = f"(?:[-_](?:{_SCRIPT}))?"
_SUFFIXES = f"(?:[-_](?:{_SCRIPT}|[a-z]{{2}}|[0-9]{{3}}))*"
_KNOWN_FORM = re.compile(rf"([a-z]{{2,3}}){_SUFFIXES}")
_SCRIPT_FORM = re.compile(rf"([a-z]{{3}}){_SCRIPT_SUFFIX}")


@lru_cache(maxsize=4096)  # called for every text of a translation memory
def canonical(code: str) -> str:
    """The ISO 639-3 code: "aze" for "az", "AZ", "az_Latn" and "aze". Unknown codes are returned in lower case.

    The script is removed from three-letter codes ("ceb_Latn"), even if the language has no two-letter code.
    """
    lower = code.lower()
    if (known := _KNOWN_FORM.fullmatch(lower)) and (known[1] in _THREE or known[1] in _KNOWN):
        return _THREE.get(known[1], known[1])
    scripted = _SCRIPT_FORM.fullmatch(lower)
    return scripted[1] if scripted else lower


def spellings(code: str) -> tuple[str, ...]:
    """The names that a language's files and columns may have, the given one first."""
    three = canonical(code)
    regions = _REGIONS.get(three, ())
    short = [alias for alias, target in _THREE.items() if target == three]
    names = [code, three, *short, *regions, *(region.replace("-", "_") for region in regions)]
    return tuple(dict.fromkeys(names))


def expressions(code: str) -> tuple[str, ...]:
    """Regular expressions that match the language in file names: first with the given region or script, then any."""
    if canonical(code) in _KNOWN and re.search("[-_]", code):
        exact = "[-_]".join(re.escape(piece) for piece in re.split("[-_]", code))
        return f"(?i:{exact})", f"(?i:{_any_spelling(code)})"
    return (f"(?i:{_any_spelling(code)})",)


def _any_spelling(code: str) -> str:
    three = canonical(code)
    if three not in _KNOWN:
        return re.escape(three) + (_SCRIPT_SUFFIX if re.fullmatch("[a-z]{3}", three) else "")
    bare = [name for name in spellings(three) if len(name) <= 3]
    return f"(?:{'|'.join(bare)}){_SUFFIXES}"


def _same_spelling(one: str, other: str) -> bool:
    """Whether two codes are equal up to case and `-` or `_`."""
    return one.lower().replace("_", "-") == other.lower().replace("_", "-")


def pick(names: Iterable[str], code: str, source: str) -> str | None:
    """The column name for a language, or None if there is none.

    Precedence: the given spelling, TED's larger column (pt-br before pt), the order of `spellings`. `source` is named
    in the error about two columns for one language.
    """
    matching = [name for name in names if canonical(name) == canonical(code)]
    preferred = _PREFERRED.get(canonical(code), code)
    for spelling in (code, preferred, *spellings(code)):
        same = [name for name in matching if _same_spelling(name, spelling)]
        if len(same) == 1:
            return same[0]
    if len(matching) > 1:
        raise DataError(f"{source}: {' and '.join(matching)} are both {canonical(code)}; remove one of them")
    return matching[0] if matching else None


def check_language(code: str) -> str:
    """Returns the code if it is a valid language name. Anything that could be a path is an error."""
    if not _NAME.fullmatch(code) or code in (".", ".."):
        raise DataError(f"{code!r} is not a language name: use up to 64 letters, digits, '.', '_' and '-'")
    return code
