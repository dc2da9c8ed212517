"""Takes the picture of an audit page: docs/_static/audit_page.png.

    python tools/make_audit_picture.py

The page is that of the gallery's example of wrong labels. Chromium has to be
installed.
"""

import io
import pathlib
import runpy
import subprocess
import tempfile

import matplotlib
from PIL import Image

matplotlib.use("Agg")
import keras_likelihood as kl  # noqa: E402

DOCS = pathlib.Path(__file__).parents[1] / "docs"
SIZE = (1100, 1300)


def main():
    found = runpy.run_path(str(DOCS / "gallery" / "plot_3_wrong_labels.py"))
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "audit.html"
        picture = pathlib.Path(folder) / "page.png"
        kl.audit(
            found["model"],
            found["x"],
            found["y"],
            page,
            show=found["digits"].reshape(-1, 8, 8),
        )
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
