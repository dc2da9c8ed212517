"""Checks the content of the wheel and the sdist (`make release-test`).

python tests/check_release.py dist
"""

import email
import pathlib
import re
import sys
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).parents[1]
EXTRAS = {"tensorflow", "jax", "torch", "tfp", "plots", "recalibration"}
SDIST_FILES = (
    "README.md LICENSE CHANGELOG.md CITATION.cff CONTRIBUTING.md Makefile "
    "CODE_OF_CONDUCT.md SECURITY.md "
    "pyproject.toml keras_likelihood/__init__.py tests/contracts.py "
    "docs/conf.py docs/_static/three_losses.png benchmarks/paper/priors.py "
    "benchmarks/outliers.py"
).split()
LARGEST = 2_000_000


def the_one(folder, pattern):
    found = sorted(folder.glob(pattern))
    assert len(found) == 1, f"expected one {pattern}, found {found}"
    return found[0]


def check_wheel(path, version):
    """The wheel has all of the package, nothing else, and correct metadata."""
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        info = f"keras_likelihood-{version}.dist-info"
        text = wheel.read(f"{info}/METADATA").decode()
    roots = {name.split("/")[0] for name in names}
    assert roots == {"keras_likelihood", info}, roots
    package = ROOT / "keras_likelihood"
    source = {
        file.relative_to(ROOT).as_posix()
        for file in package.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    packed = {n for n in names if n.startswith("keras_likelihood/")}
    assert packed == source, packed ^ source
    assert path.stat().st_size < LARGEST
    metadata = email.message_from_string(text)
    assert metadata["Version"] == version
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra")) >= EXTRAS
    core = [r for r in metadata.get_all("Requires-Dist") if "extra ==" not in r]
    assert {re.match(r"[\w-]+", r)[0] for r in core} == {"keras", "numpy"}


def check_sdist(path, version):
    """The sdist has everything to build, test and document the package."""
    with tarfile.open(path) as sdist:
        sizes = {m.name: m.size for m in sdist.getmembers() if m.isfile()}
    prefix = f"keras_likelihood-{version}/"
    for name in SDIST_FILES:
        assert prefix + name in sizes, name
    for name, size in sizes.items():
        assert size < LARGEST, f"{name}: {size} bytes"
        assert "__pycache__" not in name and "auto_gallery" not in name, name
        assert not name.startswith((prefix + "build", prefix + ".")), name


def check_changelog(version):
    """A released version has an entry with a date in the changelog."""
    text = (ROOT / "CHANGELOG.md").read_text()
    if "dev" not in version:
        heading = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$"
        assert re.search(heading, text, re.M), version


def main(folder):
    folder = pathlib.Path(folder)
    wheel = the_one(folder, "*.whl")
    version = wheel.name.split("-")[1]
    check_wheel(wheel, version)
    check_sdist(the_one(folder, "*.tar.gz"), version)
    check_changelog(version)
    print(f"{wheel.name} and its sdist hold what they should")


if __name__ == "__main__":
    main(sys.argv[1])
