#!/usr/bin/env bash
# Trains this net with the nodes of its table on this machine; --help says more.
exec "$(dirname "${BASH_SOURCE[0]}")/../run_net.sh" mnist_siamese "$@"
