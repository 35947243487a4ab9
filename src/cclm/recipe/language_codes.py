"""One name for each language: two- and three-letter codes, scripts and regions, and the spellings of TED."""

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
# ISO 639-2/B, and two-letter codes that were withdrawn but live on in old corpora.
_OTHERS = """
alb:sqi arm:hye baq:eus bur:mya chi:zho cze:ces dut:nld fre:fra geo:kat ger:deu gre:ell ice:isl mac:mkd mao:mri
may:msa per:fas rum:ron slo:slk tib:bod wel:cym
in:ind iw:heb ji:yid jw:jav mo:ron
"""
# The columns of the TED talks that carry a region. The first is the larger one, and for Portuguese the paper's.
_REGIONS = {"por": ("pt-br",), "zho": ("zh-cn", "zh-tw"), "fra": ("fr-ca",)}
_FAVOURITE = {"por": "pt-br", "zho": "zh-cn"}
# The scripts that codes such as az_Latn name.
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


@lru_cache(maxsize=4096)  # a translation memory asks for every text
def canonical(code: str) -> str:
    """The ISO 639-3 code: "az", "AZ", "az_Latn" and "aze" are "aze"; what is no known code comes back in lower case.

    Three letters and a script ("ceb_Latn") lose the script even where the language has no two-letter code.
    """
    lower = code.lower()
    if (known := _KNOWN_FORM.fullmatch(lower)) and (known[1] in _THREE or known[1] in _KNOWN):
        return _THREE.get(known[1], known[1])
    scripted = _SCRIPT_FORM.fullmatch(lower)
    return scripted[1] if scripted else lower


def spellings(code: str) -> tuple[str, ...]:
    """The names under which a language's files and columns may go, the given one first."""
    three = canonical(code)
    regions = _REGIONS.get(three, ())
    short = [alias for alias, target in _THREE.items() if target == three]
    names = [code, three, *short, *regions, *(region.replace("-", "_") for region in regions)]
    return tuple(dict.fromkeys(names))


def expressions(code: str) -> tuple[str, ...]:
    """Regular expressions for the language in file names, in order: the region or script given, then any spelling."""
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
    """Whether two codes differ in case and in the sort of hyphen at most."""
    return one.lower().replace("_", "-") == other.lower().replace("_", "-")


def pick(names: Iterable[str], code: str, place: str) -> str | None:
    """The name among columns that means the language, or None.

    The given spelling wins, then TED's larger column (pt-br before pt), then the order of `spellings`.
    """
    fitting = [name for name in names if canonical(name) == canonical(code)]
    favourite = _FAVOURITE.get(canonical(code), code)
    for spelling in (code, favourite, *spellings(code)):
        same = [name for name in fitting if _same_spelling(name, spelling)]
        if len(same) == 1:
            return same[0]
    if len(fitting) > 1:
        raise DataError(f"{place}: {' and '.join(fitting)} are both {canonical(code)}; leave one of them")
    return fitting[0] if fitting else None


def check_language(code: str) -> str:
    """The code, if it is a possible name of a language; anything that could be a path is refused."""
    if not _NAME.fullmatch(code) or code in (".", ".."):
        raise DataError(f"{code!r} is no language name: letters, digits, '.', '_' and '-' only, 64 at most")
    return code
