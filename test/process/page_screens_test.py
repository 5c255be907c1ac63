"""How the page of a job looks, with fixed data, in headless Chromium: on light and dark screens, narrow and wide, with few
nodes and many, with long names, without a job. Asserted by what the browser computed: texts, places and colours."""

import functools
import http.server
import json
import math
import os
import threading
import unittest

import browser
import cluster

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "control_client", "page")
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".json": "application/json"}
PICTURES = os.environ.get("HPNODE_PAGE_PICTURES", "")  # a folder for PNGs, for a person to look at
WIDTHS = (400, 1000, 1920)
POINTS, TESTS = 200, 20
MOST_LINKS = 4096  # of a status (StatusBoard::kMostLinks)
LONG_LINE = "node did not run for 1.0 s: the process was stopped; /a/very/long/path/" + 150 * "x"
CAUSES = ("computing", "gradients", "exchange", "activations", "sends", "labels", "grants", "records", "start")

# Colours and places of what is drawn. Texts and graphics over what is behind them: rooms in the picture, else the nearest
# background. A stroke that is see-through counts as what is seen of it.
PROBE = """(() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const luminance = (rgb) => {
    const linear = (c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const part = rgb.slice(0, 3).map((c) => linear(c / 255));
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const behind = (element) => {
    const walls = element.closest(".room") && element.closest(".room").querySelector("rect.walls");
    if (walls && walls !== element) return parse(getComputedStyle(walls).fill);
    for (let at = element.parentElement; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const contrast = (colour, element, opacity, back) => {
    const below = back || behind(element);
    const seen = below.slice(0, 3).map((c, i) => colour[i] * opacity + c * (1 - opacity));
    const pair = [luminance(seen), luminance(below)].sort((a, b) => b - a);
    return (pair[0] + 0.05) / (pair[1] + 0.05);
  };
  const shown = (element) => element.getClientRects().length > 0;
  const box = (element) => { const r = element.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
  const wide = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    return range.getBoundingClientRect().width;
  };
  const texts = [], graphics = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const svg = element.ownerSVGElement;
    if (!own || !shown(element) || element.closest("title, noscript")) continue;
    const style = getComputedStyle(element);
    const pill = element.classList.contains("pill") && parse(style.backgroundColor);
    const room = element.closest(".room"), walls = room && room.querySelector("rect.walls");
    texts.push({text: element.textContent, contrast: contrast(parse(svg ? style.fill : style.color), element, 1, pill),
                pixels: parseFloat(style.fontSize) * (svg ? svg.getScreenCTM().a : 1), box: box(element),
                cut: !svg && style.overflowX === "hidden" && wide(element) > element.clientWidth,
                within: box(walls || svg || element.closest("section, header, body")),
                group: room ? room.getAttribute("data-node") : svg ? svg.id : ""});
  }
  const drawn = [[".curve", "stroke"], [".shaft", "stroke"], [".head", "fill"], [".room circle", "fill"],
                 [".key", "backgroundColor"], [".bar > div", "backgroundColor"], [".room rect.bound", "fill"],
                 [".room rect.free", "stroke"]];
  const card = parse(getComputedStyle(document.querySelector("section")).backgroundColor);
  for (const [selector, property] of drawn) {
    for (const element of document.querySelectorAll(selector)) {
      if (!shown(element)) continue;
      const style = getComputedStyle(element), opacity = property === "stroke" ? Number(style.strokeOpacity) : 1;
      const back = selector === ".bar > div" && card;  // a whole bar has none of its own behind it
      graphics.push({what: selector + " " + (element.dataset.curve || element.className.baseVal || element.className),
                     contrast: contrast(parse(style[property]), element, opacity, back)});
    }
  }
  return {texts, graphics, back: luminance(parse(getComputedStyle(document.body).backgroundColor)),
          card: luminance(card),
          width: document.documentElement.scrollWidth, seen: document.documentElement.clientWidth};
})()"""


def node_of(name, role, host, number):
    shares = [1 + (number * 7 + i * 5) % 11 for i in range(len(CAUSES))]
    return {"name": name, "role": role, "host": host, "state": "SILENT" if number == 2 else "TRAINING", "slow": number == 1,
            "iteration": "12345", "report_age_s": 75, "images_per_s": 1234.5, "sent_bytes_per_s": 1e8,
            "received_bytes_per_s": 1e8, "solvers_free": 1, "solvers_bound": 3, "tasks_ready": 1, "memory_bytes": "12345678901",
            "time": [{"cause": cause, "share": 0.97 * share / sum(shares)} for cause, share in zip(CAUSES, shares)]}


def page_data(roles, name="%s%d", host="10.0.0.%d", blob="pool5"):
    """JobPageData of src/proto/control.proto as JSON. `roles`: (role, number of nodes) of each."""
    nodes = [(role, i) for role, count in roles for i in range(count)]
    nodes = [node_of(name % node, node[0], host % (k + 1), k) for k, node in enumerate(nodes)]
    links = []
    for a, sender in enumerate(nodes):
        for b, reader in enumerate(nodes):
            tensors = {("conv", "fc"): [blob], ("fc", "conv"): ["gradient of " + blob], ("fc", "fc"): ["fc6", "gradient of fc6"],
                       ("conv", "ps"): ["parameters"], ("ps", "conv"): ["parameters"]}.get((sender["role"], reader["role"]))
            if a != b and tensors:
                links.append({"from": a, "to": b, "bytes_per_s": 1e6 * (1 + (17 * a + 5 * b) % 100), "tensor": tensors})
    learning = {"iteration": "12340", "loss": 0.123456, "rate": 0.01, "test_iteration": "12000",
                "test_output": [{"blob": "accuracy", "value": 0.81, "loss": False}]}
    status = {"job": "a job of a name that is not short", "run_id": "5823584030a9cbfd.1", "state": "TRAINING",
              "iteration": "12345", "max_iter": "1000000", "images_per_s": 9876.5, "learning": learning,
              "precision": "FP32", "uptime_s": 12345, "node": nodes, "link": links}
    points = [{"iteration": str(5000 * i), "loss": 2 * math.exp(-i / 60), "images_per_s": 9000 + 37 * i % 500}
              for i in range(POINTS)]
    tests = [{"test_iteration": str(50000 * i), "test_output": [{"blob": "accuracy", "value": 1 - math.exp(-i / 5 - 0.1)},
                                                                {"blob": "loss", "value": 2 * math.exp(-i / 6)}]}
             for i in range(TESTS)]
    lines = [{"node": nodes[0]["name"], "time_s": "1700000000", "text": "the first"},
             {"node": nodes[1]["name"], "time_s": "1700000001", "severity": "WARNING", "text": LONG_LINE}]
    del links[MOST_LINKS:]
    return {"status": status, "problem": "", "point": points, "test": tests, "line": lines}


FEW = page_data([("conv", 2), ("fc", 2)])
MANY = page_data([("conv", 16), ("fc", 8)])
PROBLEM = "node conv0 (127.0.0.1:29500) does not answer: connection refused"
SCREENS = {
    "few": FEW,
    "many": MANY,
    "hundreds": page_data([("conv", 200), ("fc", 56)]),
    "servers": page_data([("conv", 4), ("fc", 2), ("ps", 2)]),
    "long names": page_data([("conv", 2), ("fc", 2)], name="the-%s-of-the-west-wing-%d",
                            host="gpu-node-%04d.cluster.west.example.com", blob="inception_4e/a_blob_of_a_long_name"),
    "gone": dict(FEW, problem=PROBLEM),
    "nothing": {"problem": "no job has answered yet"},
}


def overlap(a, b):
    """Whether two texts stand over one another: (left, top, right, bottom), with the leading of their lines."""
    return min(a[2], b[2]) - max(a[0], b[0]) > 1 and min(a[3], b[3]) - max(a[1], b[1]) > 3


class Handler(http.server.BaseHTTPRequestHandler):
    """The page's files, and for each screen its job.json: /NAME/..."""

    def do_GET(self):
        screen, name = self.path[1:].split("/")
        name = name or "page.html"
        if name == "job.json":
            body = json.dumps(SCREENS[screen.replace("%20", " ")]).encode()
        else:
            with open(os.path.join(PAGE, os.path.basename(name)), "rb") as file:
                body = file.read()
        try:
            self.send_response(200)
            self.send_header("Content-Type", TYPES[os.path.splitext(name)[1]])
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            pass  # the browser is on its way to the next screen

    def log_message(self, *_):
        pass


@unittest.skipUnless(browser.CHROMIUM, "SKIPPED: chromium")
class PageScreensTest(cluster.JobTest):

    def setUp(self):
        super().setUp()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(self.server.shutdown)
        self.page = browser.Browser(self.path("browser"))
        self.addCleanup(self.page.close)

    def show(self, screen, width=1320, dark=False):
        url = "http://127.0.0.1:%d/%s/" % (self.server.server_port, screen.replace(" ", "%20"))
        self.page.show(url, width, dark=dark)
        self.page.wait_for('document.querySelector("#lines li")')
        if PICTURES:
            self.page.picture(os.path.join(PICTURES, "%s_%d_%s.png" % (screen, width, "dark" if dark else "light")))

    def text(self, selector):
        return self.page.ask("(document.querySelector(%s) || {}).textContent" % json.dumps(selector))

    def texts(self, selector):
        return self.page.ask("[...document.querySelectorAll(%s)].map((found) => found.textContent)" % json.dumps(selector))

    def count(self, selector):
        return self.page.ask("document.querySelectorAll(%s).length" % json.dumps(selector))

    def test_colours_and_places(self):
        for screen in SCREENS:
            for dark in (False, True):
                for width in WIDTHS:
                    with self.subTest(screen=screen, dark=dark, width=width):
                        self.show(screen, width, dark)
                        found = self.page.ask(PROBE)
                        self.assertEqual((found["back"] < 0.1, found["card"] < 0.1), (dark, dark))
                        self.assert_colours(found)
                        self.assert_places(found)
        self.assertEqual(self.page.complaints, [])

    def assert_colours(self, found):
        for text in found["texts"]:
            self.assertGreaterEqual(text["contrast"], 4.5, text)
        for graphic in found["graphics"]:
            self.assertGreaterEqual(graphic["contrast"], 3, graphic)

    def assert_places(self, found):
        """Texts are legible, whole, inside of what they are of, not over one another; nothing is wider than the window."""
        self.assertLessEqual(found["width"], found["seen"])
        for i, text in enumerate(found["texts"]):
            box, within = text["box"], text["within"]
            self.assertFalse(text["cut"], text)
            self.assertGreaterEqual(text["pixels"], 8.5, text)
            self.assertTrue(box[0] >= within[0] - 1 and box[2] <= within[2] + 1 and box[1] >= within[1] - 1
                            and box[3] <= within[3] + 1, text)
            for other in found["texts"][:i]:
                if text["group"] and other["group"] == text["group"]:
                    self.assertFalse(overlap(box, other["box"]), (text, other))

    def test_the_readme(self):
        """The page as src/control_client/README.md draws it, of the same job."""
        with open(os.path.join(PAGE, "..", "README.md"), encoding="utf-8") as file:
            drawn = file.read().split("\n## The page\n")[1].split("```\n")[1]
        data = page_data([("conv", 2), ("fc", 2)])
        data["status"].update(job="hpnode", run_id="5823584030a9cbfd.1", iteration="738", images_per_s=636.6, uptime_s=5)
        data["status"]["learning"].update(loss=0.00296, test_output=[{"blob": "accuracy", "value": 1, "loss": False}])
        for node in data["status"]["node"]:
            node.update(solvers_bound=0, solvers_free=2 if node["role"] == "conv" else 4)
            node["time"] = [{"cause": cause, "share": share} for cause, share in
                            (("gradients", 0.32), ("activations", 0.23), ("exchange", 0.1), ("computing", 0.09))]
        kinds = (([0, 1], [2, 3], ["pool1"], 127e3), ([2, 3], [0, 1], ["gradient of pool1"], 127e3),
                 ([0, 1], [0, 1], ["parameters"], 8490), ([2, 3], [2, 3], ["gradient of ip1", "ip1"], 48200))
        data["status"]["link"] = [{"from": a, "to": b, "bytes_per_s": rate, "tensor": tensors}
                                  for senders, readers, tensors, rate in kinds for a in senders for b in readers if a != b]
        SCREENS["readme"] = data
        self.addCleanup(SCREENS.pop, "readme")
        self.show("readme")
        lines = drawn.splitlines()
        self.assertEqual(lines[0], "%s (%s)  %s" % tuple(self.text(name) for name in ("#job", "#state", "#run")))
        numbers = zip(self.texts("#numbers dt"), self.texts("#numbers dd"))
        self.assertEqual(lines[1], "   ".join(" ".join(pair) for pair in numbers))
        for heading in self.texts("h2"):
            self.assertRegex(drawn, r"(?m)(^| )%s( |:)" % heading.split(",")[0])
        for label in set(self.texts(".label")):
            self.assertIn(label, drawn)
        for text in self.texts(".room text"):
            if text.startswith("solvers"):
                self.assertIn("| " + text[:22], drawn)
        self.assertIn("Where the time goes:  %s, ...;" % ", ".join(self.texts("#causes > span")), drawn)

    def test_few_nodes(self):
        self.show("few")
        self.assertEqual(self.texts(".room .name"), ["conv0", "conv1", "fc0", "fc1"])
        self.assertEqual(self.texts(".room .small[text-anchor=end]"), ["training", "slow", "silent 75 s", "training"])
        self.assertEqual(self.count(".room rect.bound"), 12)
        self.assertEqual(self.count(".room rect.free"), 4)
        self.assertIn("solver bound", self.page.ask('id("legend").innerText'))

    def test_many_nodes_are_one_room_for_each_role(self):
        self.show("many")
        self.assertEqual(self.texts(".room > .name"), ["16 × conv", "8 × fc"])
        self.assertEqual(self.count(".room .room"), 24)
        self.assertEqual(self.texts("#states > span"), ["22 training", "1 slow: conv1", "1 silent: conv2"])
        self.assertNotIn("solver", self.page.ask('id("legend").innerText'))
        self.assertEqual(self.page.ask('document.querySelector(".room.silent title").textContent'),
                         "conv2 on 10.0.0.3: silent 75 s, iteration 12345")
        sums = {}
        for link in MANY["status"]["link"]:
            ends = tuple("16 × conv" if end < 16 else "8 × fc" for end in (link["from"], link["to"]))
            sums[ends] = sums.get(ends, 0) + link["bytes_per_s"]
        said = self.texts(".arrow title")
        self.assertEqual(len(said), len(sums))
        for (sender, reader), rate in sums.items():
            self.assertTrue(any(text.startswith(sender) and text.endswith("to %s: %.3g GB/s" % (reader, rate / 1e9))
                                for text in said), (sender, reader, rate, said))
        # The bars stand in columns, below a wide curve of images/s.
        rows = self.page.ask('[...document.querySelectorAll("#time .row:not(.all)")].map((row) => row.offsetTop)')
        self.assertEqual(len(rows), 24)
        self.assertLessEqual(len(set(rows)), 8)

    def test_thirteen_nodes_are_many(self):
        for count, rooms in ((12, 12), (13, 2)):
            SCREENS["some"] = page_data([("conv", count - 4), ("fc", 4)])
            self.addCleanup(functools.partial(SCREENS.pop, "some", None))
            self.show("some")
            self.assertEqual(self.count("#picture > .room"), rooms)

    def test_long_names_keep_their_ends(self):
        self.show("long names")
        for name in self.texts(".room .name"):
            self.assertRegex(name, r"^the-.*….*-[01]$")
        self.assertEqual(self.texts(".row:not(.all) > span:first-child")[:2], ["the-conv-…t-wing-0", "the-conv-…t-wing-1"])
        self.assertEqual(self.page.ask('document.querySelector(".row:not(.all) > span").title'), "the-conv-of-the-west-wing-0")
        self.assertRegex(self.text(".arrow title"), "inception_4e/a_blob_of_a_long_name")

    def test_log_lines(self):
        self.show("few")
        self.assertEqual(self.texts("#lines li"),
                         ["2023-11-14 22:13:21conv1" + LONG_LINE, "2023-11-14 22:13:20conv0the first"])
        colours = self.page.ask('[...document.querySelectorAll("#lines li span")].map((s) => getComputedStyle(s).color)')
        self.assertNotEqual(*colours)
        self.show("nothing")
        self.assertEqual(self.texts("#lines li"), ["none yet"])

    def test_curves(self):
        for width in WIDTHS:
            self.show("few", width)
            for name, chart, points in (("loss", "loss", POINTS), ("images/s", "speed", POINTS), ("accuracy", "tests", TESTS),
                                        ("loss", "tests", TESTS)):
                path, box = self.page.ask("""(() => {
                  const svg = id("%s"), curve = svg.querySelector('[data-curve="%s"]'), size = svg.viewBox.baseVal;
                  return [curve.getAttribute("d"), [size.width, size.height]]; })()""" % (chart, name))
                places = [tuple(map(float, place.split())) for place in path[1:].split(" L")]
                self.assertEqual(len(places), points)
                self.assertTrue(all(0 <= x <= box[0] and 0 <= y <= box[1] for x, y in places), path)
                self.assertEqual(sorted(places), places, "from left to right")
                falls = all(a[1] <= b[1] for a, b in zip(places, places[1:]))
                self.assertEqual(falls, name == "loss")
            self.assertEqual(self.texts("#outputs > span"), ["accuracy 0.9798", "loss 0.08429"])
            self.assertTrue({"400,000", "500,000"} & set(self.texts("#loss text")), "x counts iterations")

    def test_a_job_that_is_not_reached(self):
        self.show("gone")
        self.assertEqual(self.text("#state"), "not connected")
        self.assertEqual(self.text("#problem"), PROBLEM + " (below is what it said last)")
        self.assertEqual(self.texts(".room .small[text-anchor=end]"),
                         ["was training", "was slow", "was silent 75 s", "was training"])
        colours = 'new Set([...document.querySelectorAll(".room circle")].map((dot) => getComputedStyle(dot).fill)).size'
        self.assertEqual(self.page.ask(colours), 1, "no node looks as if it trained")
        self.assertEqual(self.count(".curve"), 4)
        self.show("few")
        self.assertEqual(self.page.ask(colours), 3)
        self.assertTrue(self.page.ask('id("problem").hidden'))

    def test_no_job_yet(self):
        self.show("nothing")
        self.assertEqual(self.text("#state"), "not connected")
        self.assertEqual(self.text("#problem"), "no job has answered yet")
        said = self.page.ask('[...document.querySelectorAll("section")].map((section) => section.innerText)')
        self.assertEqual(sum("nothing yet" in text for text in said), 5)

    def test_the_server_goes_away(self):
        self.show("few")
        self.server.shutdown()
        self.server.server_close()
        self.page.wait_for('!id("problem").hidden')
        self.assertRegex(self.text("#problem"), "this page's server does not answer")
        self.assertEqual(self.text("#state"), "not connected")


if __name__ == "__main__":
    cluster.main()
