#!/usr/bin/python3
"""Retrieval score of a model: finds the characters of the font that it has not seen in a gallery of another one.

A character of the test font is a query, the characters of the gallery font are what it searches. The net's features,
which the head would get, say what is alike, by their cosine. Printed are recall@1, recall@5: part of the queries whose
character is the first, or in the first 5, of the gallery; and the mean reciprocal rank (MRR), which is the mean average
precision, since the gallery has each character once.

OpenCV (python3-opencv, opencv < 5) computes the features, from Caffe's files.
"""
import argparse
import os

import lmdb
import numpy

SIDE, CROP = 36, 32
MEAN, SCALE = 64, 0.015625  # glyphs_train_test.prototxt's transform_param
BLOCK = 1000  # images, or queries, at a time


def read_database(path):
    """The images of make_glyphs.py, [N, SIDE, SIDE] bytes, and their labels."""
    images, labels = [], []
    with lmdb.open(path, readonly=True, lock=False) as database, database.begin() as transaction:
        for _, record in transaction.cursor():
            # Datum: three sizes in two bytes each, tag and two bytes of length of the data, the data, tag of the label.
            end = 9 + SIDE * SIDE
            images.append(numpy.frombuffer(record, numpy.uint8, SIDE * SIDE, 9))
            labels.append(sum((byte & 127) << 7 * place for place, byte in enumerate(record[end + 1:])))
    return numpy.stack(images).reshape(-1, SIDE, SIDE), numpy.array(labels)


def test_input(images):
    """What the net sees of images in a test, [N, 1, CROP, CROP]."""
    border = (SIDE - CROP) // 2
    middle = images[:, None, border:border + CROP, border:border + CROP]
    return (middle.astype(numpy.float32) - MEAN) * SCALE


def ranks(queries, gallery):
    """Place of row i of the gallery in the order of what is alike row i of the queries, from 1."""
    queries, gallery = (rows / numpy.linalg.norm(rows, axis=1, keepdims=True) for rows in (queries, gallery))
    found = []
    for first in range(0, len(queries), BLOCK):
        cosines = queries[first:first + BLOCK] @ gallery.T
        own = cosines[numpy.arange(len(cosines)), numpy.arange(first, first + len(cosines))]
        found.append((cosines >= own[:, None]).sum(1))
    return numpy.concatenate(found)


def print_scores(folder, features_of, who):
    """Prints the scores on both pairs of databases. @param features_of the features of a batch of net inputs."""
    for prefix, what in (("", "trained characters"), ("new_", "new characters")):
        rows = []
        for part in ("test", "gallery"):
            images, _ = read_database(os.path.join(folder, prefix + part + "_lmdb"))
            rows.append(numpy.concatenate([features_of(test_input(images[first:first + BLOCK]))
                                           for first in range(0, len(images), BLOCK)]))
        found = ranks(*rows)
        print(f"{who}: retrieval of {len(found)} {what}: recall@1 {100 * (found == 1).mean():.2f}%, "
              f"recall@5 {100 * (found <= 5).mean():.2f}%, MRR {(1 / found).mean():.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("net", help="glyphs_features.prototxt")
    parser.add_argument("weights", help="a .caffemodel")
    parser.add_argument("folder", help="of make_glyphs.py's databases")
    options = parser.parse_args()
    import cv2  # pylint: disable=import-outside-toplevel  # glyphs_torch.py uses this file without it
    net = cv2.dnn.readNetFromCaffe(options.net, options.weights)

    def features_of(batch):
        net.setInput(batch)
        return net.forward().reshape(len(batch), -1).copy()

    print_scores(options.folder, features_of, "glyphs")


if __name__ == "__main__":
    main()
