"""Ten thousand commands in one local sandbox leave nothing on either side."""
import os

import many


def test_ten_thousand_commands():
    many.check("local:", many.descendants, os.environ)
