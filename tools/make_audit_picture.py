"""Takes the picture of an audit page: docs/_static/audit_page.png.

    python tools/make_audit_picture.py

The page is that of the tutorial about wrong labels in images. Chromium has to
be installed.
"""

import contextlib
import io
import pathlib
import re
import subprocess
import tempfile

from PIL import Image

DOCS = pathlib.Path(__file__).parents[1] / "docs"
SIZE = (1100, 1300)


def write_page():
    """Runs the code of the tutorial until it has written the page."""
    text = (DOCS / "tutorials" / "image_labels.md").read_text()
    scope = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.S):
        exec(compile(block, "image_labels.md", "exec"), scope)
        if "kl.audit(" in block:
            return


def main():
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "audit.html"
        picture = pathlib.Path(folder) / "page.png"
        with contextlib.chdir(folder):
            write_page()
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu"]
        command += ["--hide-scrollbars", f"--window-size={SIZE[0]},{SIZE[1]}"]
        command += [f"--screenshot={picture}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True)
        taken = io.BytesIO(picture.read_bytes())
    target = DOCS / "_static" / "audit_page.png"
    Image.open(taken).convert("RGB").quantize(64).save(target, optimize=True)
    print(target, target.stat().st_size)


if __name__ == "__main__":
    main()
