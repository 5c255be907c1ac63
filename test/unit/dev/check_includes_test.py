#!/usr/bin/env python3
"""check_includes.py on small trees: what is forbidden is found at its line, what is allowed is not."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
CHECK = os.path.join(ROOT, "tools", "dev", "check_includes.py")


def check(files):
    """(exit status, output) of the check on a tree of {path: text}."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
        run = subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True, check=False)
        return run.returncode, run.stdout + run.stderr


class CheckIncludesTest(unittest.TestCase):
    def expect_fault(self, path, text, *words, line=1):
        status, output = check({path: text})
        self.assertEqual(status, 1, output)
        for word in (f"{path}:{line}:", *words):
            self.assertIn(word, output)

    def expect_clean(self, files):
        status, output = check(files)
        self.assertEqual(status, 0, output)

    def test_lower_rooms_do_not_know_higher_ones(self):
        self.expect_fault("src/tensor/a.h", '#include "layers/layer.h"\n', "src/tensor may not include")
        self.expect_fault("src/net/a.h", '#include "scheduler/plan/table.h"\n')
        self.expect_fault("src/layers/a.h", '#include "transport/transport.h"\n')
        self.expect_fault("src/data/a.h", '#include "net/plan/graph.h"\n')
        for room in ("net", "layers", "backend", "solvers", "scheduler/plan", "transport"):
            self.expect_fault("src/checkpoint/a.h", f'#include "{room}/a.h"\n')

    def test_transport_knows_nothing(self):
        for room in ("tensor", "proto", "scheduler/plan", "solvers", "node"):
            self.expect_fault("transport/tcp/a.cc", f'#include "{room}/a.h"\n')

    def test_only_node_names_the_concrete(self):
        for header in ("transport/tcp/a.h", "backend/cpu/a.h", "solvers/exchange/a.h", "scheduler/plan/a.h"):
            self.expect_clean({"src/node/a.cc": f'#include "{header}"\n'})
        self.expect_fault("scheduler/pipeline/a.cc", '#include "transport/tcp/a.h"\n')
        self.expect_fault("tools/a.cc", '#include "transport/tcp/a.h"\n')
        self.expect_fault("src/layers/a.cc", '#include "backend/cpu/a.h"\n')
        self.expect_fault("transport/inproc/a.cc", '#include "transport/tcp/a.h"\n')
        self.expect_fault("transport/verbs/a.cc", '#include "transport/tcp/a.h"\n')
        self.expect_clean({"transport/verbs/a.cc": '#include "transport/connect/a.h"\n'})

    def test_the_scheduler_by_rooms(self):
        self.expect_clean({"scheduler/pipeline/a.cc": '#include "scheduler/plan/a.h"\n#include "transport/a.h"\n',
                           "scheduler/control/a.cc": '#include "scheduler/plan/a.h"\n#include "transport/a.h"\n'})
        self.expect_fault("scheduler/plan/a.cc", '#include "transport/a.h"\n')
        self.expect_fault("scheduler/plan/a.cc", '#include "scheduler/control/a.h"\n')
        self.expect_fault("scheduler/pipeline/a.cc", '#include "scheduler/control/a.h"\n')
        self.expect_fault("src/model/a.cc", '#include "engine/a.h"\n')
        self.expect_fault("src/engine/a.cc", '#include "node/a.h"\n')
        self.expect_fault("src/report/a.cc", '#include "engine/a.h"\n')

    def test_an_interface_in_a_room_of_concrete_things(self):
        self.expect_clean({"src/engine/a.cc": '#include "solvers/exchange/exchange.h"\n'})
        self.expect_fault("src/engine/a.cc", '#include "solvers/exchange/linked_exchange.h"\n')

    def test_public_headers_stand_alone(self):
        self.expect_fault("include/hp/a.h", '#include "base/mutex.h"\n')
        self.expect_fault("include/hp/a.h", "#include <google/protobuf/message.h>\n")
        self.expect_fault("include/hp/a.h", '#include "proto/caffe.pb.h"\n')

    def test_libraries_stay_where_they_belong(self):
        for header in ("infiniband/verbs.h", "rdma/rdma_cma.h", "cuda_runtime.h", "nccl.h", "oneapi/dnnl/dnnl.hpp", "dnnl.hpp", "cblas.h",
                       "leveldb/db.h", "lmdb.h", "boost/asio.hpp", "jpeglib.h", "png.h", "opencv2/imgproc.hpp"):
            self.expect_fault("scheduler/plan/a.cc", f"\n#include <{header}>\n", header, line=2)
            self.expect_fault("scheduler/plan/a.cc", f'\n#include "{header}"\n', header, line=2)
        self.expect_clean({
            "transport/verbs/a.cc": "#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n",
            "transport/tcp/a.cc": "#include <boost/asio.hpp>\n",
            "src/backend/cpu/a.cc": "#include <dnnl.hpp>\n#include <cblas.h>\n",
            "src/backend/cuda/a.cu": "#include <cuda_runtime.h>\n",
            "solvers/exchange/nccl_exchange.cc": "#include <nccl.h>\n#include <cuda_runtime.h>\n",
            "src/data/a.cc": "#include <leveldb/db.h>\n#include <lmdb.h>\n",
            "src/data/b.cc": "#include <jpeglib.h>\n#include <png.h>\n#include <opencv2/imgproc.hpp>\n",
        })

    def test_project_headers_are_written_with_their_room(self):
        status, output = check({"src/net/a.cc": '#include "b.h"\n', "src/net/b.h": ""})
        self.assertEqual(status, 1)
        self.assertIn('src/net/a.cc:1: "b.h"', output)
        status, output = check({"src/net/a.cc": "#include <net/b.h>\n", "src/net/b.h": ""})
        self.assertEqual(status, 1)
        self.assertIn('write "net/b.h"', output)

    def test_system_headers_named_like_a_room(self):
        self.expect_clean({"transport/tcp/a.cc": "#include <net/if.h>\n#include <glog/logging.h>\n"})

    def test_own_room_and_base_are_always_allowed(self):
        self.expect_clean({"src/net/a.cc": '#include "net/b.h"\n#include "base/mutex.h"\n#include "hp/status.h"\n'})

    def test_getenv_in_one_file_only(self):
        one = "const char* a = std::getenv(\"A\");\n"
        self.expect_clean({"src/node/a.cc": one + one, "src/node/b.cc": "// getenv(\"A\") is in a.cc\n"})
        status, output = check({"src/node/a.cc": one, "tools/b.cc": "\n" + one})
        self.assertEqual(status, 1)
        self.assertIn("src/node/a.cc:1, tools/b.cc:2: getenv in more than one file", output)

    def test_comments_do_not_count(self):
        self.expect_clean({"src/tensor/a.h": '/*\n#include "net/b.h"\n*/ // #include "net/b.h"\n'})

    def test_tests_are_free_and_unknown_rooms_are_not(self):
        self.expect_clean({"src/base/a.h": "", "test/a.cc": '#include "net/b.h"\n#include <infiniband/verbs.h>\n'})
        self.expect_fault("src/cellar/a.h", "", "no room")

    def test_an_empty_tree_is_a_mistake(self):
        self.assertEqual(check({})[0], 1)


if __name__ == "__main__":
    unittest.main()
