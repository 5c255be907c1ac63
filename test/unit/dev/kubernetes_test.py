#!/usr/bin/env python3
"""The manifests of tools/cluster/kubernetes: valid by the schemas of kubernetes/, and what they promise. Needs Debian's
python3-jsonschema and python3-yaml."""
import copy
import json
import os
import re
import subprocess
import tempfile
import unittest

try:
    import jsonschema
    import yaml
    MISSING = ""
except ImportError as error:
    MISSING = error.name

HERE = os.path.dirname(os.path.abspath(__file__))
MANIFEST = os.path.join(HERE, "../../../tools/cluster/kubernetes/digits.yaml")
PACKAGE_README = os.path.join(HERE, "../../../tools/package/README.md")
OLD_S = 100000


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


SCHEMAS = {name: json.loads(read(os.path.join(HERE, "kubernetes", name))) for name in ("core_v1.json", "batch_v1.json")}


def faults_by(name, document):
    resolver = jsonschema.RefResolver("", {}, store=SCHEMAS)
    validator = jsonschema.Draft202012Validator({"$ref": name}, resolver=resolver)
    return [fault.message for fault in validator.iter_errors(document)]


def faults(document):
    """What the schema of its kind says of a document."""
    group = "batch_v1.json" if document["apiVersion"].startswith("batch/") else "core_v1.json"
    return faults_by("%s#/$defs/%s" % (group, document["kind"]), document)


@unittest.skipIf(MISSING, "SKIPPED: no Python module " + MISSING)
class KubernetesTest(unittest.TestCase):

    def setUp(self):
        self.documents = {document["kind"]: document for document in yaml.safe_load_all(read(MANIFEST))}
        self.job = self.documents["Job"]["spec"]
        self.pod = self.job["template"]["spec"]
        self.container, = self.pod["containers"]

    def test_schemas_are_schemas(self):
        for schema in SCHEMAS.values():
            jsonschema.Draft202012Validator.check_schema(schema)

    def test_valid(self):
        self.assertEqual(list(self.documents), ["Service", "ConfigMap", "Secret", "Job"])
        for document in self.documents.values():
            self.assertEqual(faults(document), [])

    def test_the_pod_of_the_readme(self):
        text, = re.findall(r"```yaml\n(.*?)```", read(PACKAGE_README), re.S)
        pod = yaml.safe_load(text)
        self.assertEqual((pod["apiVersion"], pod["kind"]), ("v1", "Pod"))
        template = {"metadata": pod["metadata"], "spec": pod["spec"]}
        self.assertEqual(faults_by("core_v1.json#/$defs/PodTemplateSpec", template), [])
        pod["spec"]["containers"][0]["securityContex"] = {}
        self.assertTrue(faults_by("core_v1.json#/$defs/PodTemplateSpec", template))

    def test_faults_are_found(self):
        def changed(change):
            job = copy.deepcopy(self.documents["Job"])
            change(job["spec"])
            return faults(job)

        self.assertTrue(changed(lambda job: job.update(podReplacmentPolicy="Failed")))
        self.assertTrue(changed(lambda job: job.update(podReplacementPolicy="TerminatingOrFailed")))
        self.assertTrue(changed(lambda job: job["template"]["spec"].update(restartPolicy="OnFailure")))
        self.assertTrue(changed(lambda job: job["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"].append(0)))
        self.assertTrue(changed(lambda job: job["template"]["spec"]["containers"][0].pop("image")))
        self.assertTrue(changed(lambda job: job["template"]["spec"]["containers"][0]["env"][0].update(value=4)))

    def test_exit_statuses(self):
        self.assertEqual(self.job["podReplacementPolicy"], "Failed")
        actions = {status: rule["action"] for rule in self.job["podFailurePolicy"]["rules"] if "onExitCodes" in rule
                   for status in rule["onExitCodes"]["values"]}
        self.assertEqual(actions, {4: "Ignore", 5: "Ignore", 2: "FailJob", 3: "FailJob"})
        for rule in self.job["podFailurePolicy"]["rules"]:
            self.assertIn(rule.get("onExitCodes", {}).get("containerName"), (None, self.container["name"]))

    def test_a_pod_for_each_node(self):
        service, name = self.documents["Service"], self.documents["Job"]["metadata"]["name"]
        hosts = re.findall(r'host: "([^"]*)"', self.documents["ConfigMap"]["data"]["table.prototxt"])
        self.assertEqual(hosts, ["%s-%d.%s" % (name, i, service["metadata"]["name"]) for i in range(len(hosts))])
        self.assertEqual(self.job["completionMode"], "Indexed")
        sizes = [self.job["completions"], self.job["parallelism"], int(self.container["env"][0]["value"])]
        self.assertEqual(self.container["env"][0]["name"], "WORLD_SIZE")
        self.assertEqual(sizes, [len(hosts)] * 3)
        self.assertEqual(self.pod["subdomain"], service["metadata"]["name"])
        self.assertEqual(service["spec"]["clusterIP"], "None")
        self.assertIs(service["spec"]["publishNotReadyAddresses"], True)
        self.assertEqual(service["spec"]["selector"], {"job-name": name})

    def test_mounts(self):
        volumes = {volume["name"]: volume for volume in self.pod["volumes"]}
        mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in self.container["volumeMounts"]}
        self.assertEqual(mounts["/job"]["configMap"]["name"], self.documents["ConfigMap"]["metadata"]["name"])
        self.assertEqual(mounts["/token"]["secret"],
                         {"secretName": self.documents["Secret"]["metadata"]["name"], "defaultMode": 0o400})
        self.assertEqual(mounts["/dev/shm"]["emptyDir"]["medium"], "Memory")
        self.assertEqual(self.container["securityContext"]["capabilities"]["add"], ["IPC_LOCK"])

    def test_probes_follow_the_age_of_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "progress")

            def passes(kind):
                command = [word.replace("/dev/shm/progress", path) for word in self.container[kind]["exec"]["command"]]
                self.assertIn(path, command[-1])
                return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0

            probes = ("startupProbe", "readinessProbe", "livenessProbe")
            self.assertEqual([passes(probe) for probe in probes], [False] * 3, "no file")
            with open(path, "w", encoding="ascii"):
                pass
            self.assertFalse(passes("startupProbe"), "no iteration has ended")
            with open(path, "w", encoding="ascii") as out:
                out.write("1 iterations\n")
            self.assertEqual([passes(probe) for probe in probes], [True] * 3)
            os.utime(path, (0, os.stat(path).st_mtime - OLD_S))
            self.assertEqual([passes(probe) for probe in probes[1:]], [False] * 2, "it hangs")

    def test_command(self):
        self.assertEqual(self.container["command"], [
            "hpnode", "--routing=/job/table.prototxt", "--token_file=/token/job.token",
            "--progress_file=/dev/shm/progress", "--run_folder=/data/digits-run", "--resume=latest"])


if __name__ == "__main__":
    unittest.main()
