#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Cut the test clip out of Debian's vtest.avi (package opencv-doc)."""
import argparse
import sys

import cv2

FRAMES = 180
SIZE_PX = (384, 288)


def main() -> int:
    """Read the first FRAMES frames of SOURCE and write them smaller to TARGET."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('source', help='vtest.avi, 768x576, 10 frames/s')
    parser.add_argument('target', help='vtest_clip.mp4')
    arguments = parser.parse_args()
    reader = cv2.VideoCapture(arguments.source)
    rate_hz = reader.get(cv2.CAP_PROP_FPS)
    writer = cv2.VideoWriter(
        arguments.target, cv2.VideoWriter_fourcc(*'mp4v'), rate_hz, SIZE_PX)
    written = 0
    while written < FRAMES:
        ok, picture = reader.read()
        if not ok:
            print(f'{arguments.source} ends after {written} frames', file=sys.stderr)
            return 1
        writer.write(cv2.resize(picture, SIZE_PX, interpolation=cv2.INTER_AREA))
        written += 1
    writer.release()
    return 0


if __name__ == '__main__':
    sys.exit(main())
