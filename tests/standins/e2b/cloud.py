"""The control plane: sandboxes as the REST API sees them."""
import datetime
import ipaddress
import json
import re
import secrets
import time
import urllib.parse

import machines
import vms

ENVD_VERSION = "0.6.13"
CLIENT_ID = "6532622b"
ALL = "0.0.0.0/0"
TEMPLATES = {"base": "rki5dems9wqfm4r03t7g", "code-interpreter-v1": "nlhz8vlwyupq845jsdg9"}
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


class Refused(Exception):
    def __init__(self, status, message, headers=None):
        super().__init__(message)
        self.status, self.headers = status, headers or {}
        self.body = {"code": status, "message": message}


def missing(name):
    return Refused(404, f'Sandbox "{name}" doesn\'t exist or you don\'t have access to it')


def number(body, name, otherwise):
    value = body.get(name, otherwise)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refused(400, f"{name} must be an integer")
    return value


class Cloud:
    """`settings` are those of the script: see server.py."""

    def __init__(self, settings):
        self.settings = settings
        self.fleet = machines.Fleet(self.expire)

    # --- what machines look like ---------------------------------------------------------------------

    def moment(self, when):
        when = datetime.datetime.fromtimestamp(when + self.settings["clock_skew_s"], datetime.timezone.utc)
        return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def sandbox(self, vm):
        """As create and connect answer."""
        found = {"templateID": TEMPLATES.get(vm.template, vm.template), "sandboxID": vm.name, "alias": vm.template,
                 "clientID": CLIENT_ID, "envdVersion": ENVD_VERSION}
        if vm.token:
            found["envdAccessToken"] = vm.token
        if not vm.public:
            found["trafficAccessToken"] = vms.keyed("sandbox-traffic-" + vm.name)
        return found

    def listed(self, vm):
        ends = vm.paused_at if vm.state == "paused" else vm.ends
        return {"templateID": TEMPLATES.get(vm.template, vm.template), "sandboxID": vm.name, "alias": vm.template,
                "clientID": CLIENT_ID, "startedAt": self.moment(vm.started), "endAt": self.moment(ends), "cpuCount": 2,
                "memoryMB": 512, "diskSizeMB": 10240, "metadata": vm.body.get("metadata") or {}, "state": vm.state,
                "envdVersion": ENVD_VERSION}

    def detail(self, vm):
        found = {**self.listed(vm), "lifecycle": {"autoResume": vm.resumes, "onTimeout": vm.at_end}}
        if vm.token:
            found["envdAccessToken"] = vm.token
        if "allow_internet_access" in vm.network:
            found["allowInternetAccess"] = vm.network["allow_internet_access"]
        found["network"] = {key: value for key, value in vm.network.items() if key != "allow_internet_access"}
        return found

    # --- requests ------------------------------------------------------------------------------------

    def answer(self, method, target, low, raw):
        """Status, headers and body of one request."""
        url = urllib.parse.urlsplit(target)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        parts = url.path.strip("/").split("/")
        if (method, parts) == ("GET", ["health"]):
            return 200, {}, "Health check successful"
        self.check_key(low)
        second = parts[0] == "v2"
        if second and (method != "GET" and self.settings["no_v2"]):
            raise Refused(404, "no matching operation was found")
        parts = parts[1:] if second else parts
        if parts[:1] != ["sandboxes"]:
            raise Refused(404, "no matching operation was found")
        if len(parts) == 1:
            if method == "POST":
                return self.create(self.body(raw), second)
            if method == "GET":
                return self.listing(query, second)
        elif len(parts) == 2 and not second and method in ("GET", "DELETE"):
            return self.info(parts[1]) if method == "GET" else self.kill(parts[1])
        elif len(parts) == 3:
            found = self.operations(second).get((method, parts[2]))
            if found:
                return found(self.find(parts[1]), raw)
        raise Refused(405 if method not in ("GET", "POST") else 404, "no matching operation was found")

    def operations(self, second):
        if second:
            return {("POST", "connect"): lambda vm, raw: self.connect(vm, self.body(raw, True), 300)}
        return {("POST", "connect"): lambda vm, raw: self.connect(vm, self.body(raw), None),
                ("POST", "resume"): lambda vm, raw: self.resume(vm, self.body(raw)),
                ("POST", "pause"): self.pause, ("POST", "timeout"): self.timeout, ("POST", "refreshes"): self.refresh,
                ("PUT", "network"): self.change_network, ("GET", "metrics"): self.metrics}

    def check_key(self, low):
        given, wanted = low.get("x-api-key"), self.settings["key"]
        if not given:
            raise Refused(401, "no valid API key was provided")
        if given != wanted if wanted else not given.startswith("e2b_"):
            raise Refused(401, "Invalid API key format: an API key begins with e2b_" if not wanted else
                               "Cannot get the team for the given API key")

    def body(self, raw, optional=False):
        if optional and not raw:
            return {}
        try:
            body = json.loads(raw.decode("utf-8"))
        except (UnicodeError, ValueError) as why:
            raise Refused(400, f"Error when parsing request: {why}") from why
        if not isinstance(body, dict):
            raise Refused(400, "Error when parsing request: value must be an object")
        return body

    def find(self, name):
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)?", name):
            raise Refused(400, "Invalid sandbox ID")
        vm = self.fleet.find(name)
        if vm is None:
            raise missing(name)
        return vm

    def seconds(self, body, otherwise, name="timeout"):
        value = number(body, name, otherwise)
        if value <= 0:
            raise Refused(400, "Timeout must be greater than 0")
        if value > self.settings["max_timeout_s"]:
            raise Refused(400, f"Timeout cannot be greater than {self.settings['max_timeout_s'] // 3600} hours")
        return value

    def create(self, body, second):
        template = body.get("templateID")
        if not isinstance(template, str):
            raise Refused(400, "Error when parsing request: property \"templateID\" is missing")
        alias = template.rpartition("/")[2].partition(":")[0]
        alias = next((name for name, identity in TEMPLATES.items() if identity == alias), alias)
        if alias not in TEMPLATES and alias not in self.settings["templates"]:
            raise Refused(404, f"template '{template}' not found")
        seconds = self.seconds(body, 300 if second else 15)
        secured = second or body.get("secure", False)
        network = network_of({**(body.get("network") or {}), **{key: body[key] for key in ["allow_internet_access"]
                                                                if key in body}})
        resumes = (body.get("autoResume") or {}).get("enabled", False)
        if body.get("autoPauseMemory") is False and (resumes or not body.get("autoPause")):
            raise Refused(400, "autoPauseMemory: false needs autoPause and excludes autoResume")
        if network.get("allowPublicTraffic") is False and not secured:
            raise Refused(400, "You cannot create a sandbox without public access unless it is secured")
        if self.settings["concurrent"] is not None and len(self.running()) >= self.settings["concurrent"]:
            raise Refused(429, "you have reached the maximum number of concurrent E2B sandboxes "
                               f"({self.settings['concurrent']})")
        vm = vms.Vm("i" + "".join(secrets.choice(LETTERS) for _ in range(20)), self.settings["disk_bytes"])
        vm.body, vm.template, vm.network, vm.resumes, vm.length = body, alias, network, resumes, seconds
        vm.at_end = "pause" if body.get("autoPause") else "kill"
        vm.public = network.get("allowPublicTraffic", True)
        vm.token = vms.keyed(vm.name) if secured else None
        vm.started = time.time()
        vm.ends = vm.started + seconds
        try:
            self.tell(vm, interpreter=vm.template.startswith("code-interpreter"))
        except BaseException:
            vm.end()
            raise
        self.fleet.add(vm)
        return 201, {}, self.sandbox(vm)

    def tell(self, vm, **more):
        """Give envd its token and the variables of the machine."""
        known = {"E2B_SANDBOX": "true", "E2B_SANDBOX_ID": vm.name, "E2B_TEMPLATE_ID": vm.template}
        vm.init(envVars={**(vm.body.get("envVars") or {}), **known}, defaultUser="user", spaces=self.settings["spaces"],
                **more)

    def rotate(self, vm):
        """From now on its token is another one."""
        vm.token = vms.keyed(vm.name + secrets.token_hex(8))
        self.tell(vm)

    def running(self):
        return [vm for vm in self.fleet.all() if vm.state == "running"]

    def listing(self, query, second):
        found = sorted(self.fleet.all(), key=lambda vm: vm.started, reverse=query.get("order", "desc") == "desc")
        states = query["state"].split(",") if query.get("state") else ["running", "paused"] if second else ["running"]
        wanted = {}
        for pair in urllib.parse.unquote_plus(query.get("metadata", "")).split("&"):
            if pair:
                key, _, value = pair.partition("=")
                wanted[urllib.parse.unquote_plus(key)] = urllib.parse.unquote_plus(value)
        found = [vm for vm in found if vm.state in states
                 and wanted.items() <= (vm.body.get("metadata") or {}).items()
                 and query.get("template", vm.template) in (vm.template, TEMPLATES.get(vm.template))]
        if not second:
            return 200, {}, [self.listed(vm) for vm in found]
        limit = query.get("limit", "100")
        if not limit.isdigit() or not 1 <= int(limit) <= 100:
            raise Refused(400, "limit must be between 1 and 100")
        at, total = int(query.get("nextToken") or 0), len(found)
        page = found[at:at + int(limit)]
        headers = {"X-Total-Running": len(self.running())}
        if at + len(page) < total:
            headers["X-Next-Token"] = at + len(page)
        return 200, headers, [self.listed(vm) for vm in page]

    def info(self, name):
        return 200, {}, self.detail(self.find(name))

    def kill(self, name):
        if not self.fleet.drop(self.find(name)):
            raise missing(name)
        return 204, {}, None

    def connect(self, vm, body, otherwise):
        seconds = self.seconds(body, otherwise)
        status = 200
        if vm.state == "paused":
            vm.ends, status = 0, 201
        vm.ends = max(vm.ends, time.time() + seconds)
        self.wake(vm)
        return status, {}, self.sandbox(vm)

    def resume(self, vm, body):
        if vm.state != "paused":
            raise Refused(409, f"Sandbox {vm.name} is already running")
        vm.ends = time.time() + self.seconds(body, 15)
        self.wake(vm)
        return 201, {}, self.sandbox(vm)

    def wake(self, vm):
        if vm.state == "paused":
            vm.thaw()
        self.fleet.touch()

    def pause(self, vm, _=b""):
        if vm.state == "paused":
            raise Refused(409, f"Sandbox '{vm.name}' is already paused")
        vm.paused_at = time.time()
        vm.freeze()
        return 204, {}, None

    def timeout(self, vm, raw):
        seconds = self.seconds(self.body(raw), None)
        if vm.state == "paused":
            raise Refused(409, f"Sandbox '{vm.name}' is paused")
        vm.ends = time.time() + seconds
        self.fleet.touch()
        return 204, {}, None

    def refresh(self, vm, raw):
        seconds = min(max(number(self.body(raw, True), "duration", 15), 15), 3600)
        vm.ends = max(vm.ends, time.time() + seconds)
        self.fleet.touch()
        return 204, {}, None

    def change_network(self, vm, raw):
        vm.network = network_of(self.body(raw))
        return 204, {}, None

    def metrics(self, vm, _):
        now = time.time()
        one = {"timestamp": self.moment(now), "timestampUnix": int(now), "cpuCount": 2, "cpuUsedPct": 1.5,
               "memUsed": 64 << 20, "memTotal": 512 << 20, "memCache": 0, "diskUsed": 1 << 30, "diskTotal": 10 << 30}
        return 200, {}, [one]

    def expire(self, vm):
        if vm.at_end == "pause":
            vm.paused_at = time.time()
            vm.freeze()
        else:
            self.fleet.drop(vm)


def network_of(given):
    """The network options when they are in order; nothing of them is enforced, there is no network at all."""
    for text in given.get("denyOut") or []:
        try:
            ipaddress.ip_network(text, strict=False)
        except ValueError as why:
            raise Refused(400, f"invalid denied CIDR {text}") from why
    names = []
    for text in given.get("allowOut") or []:
        try:
            ipaddress.ip_network(text, strict=False)
        except ValueError as why:
            if not re.fullmatch(r"(\*\.)?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*", text):
                raise Refused(400, f"invalid allowed address {text}") from why
            names.append(text)
    closed = ALL in (given.get("denyOut") or []) or given.get("allow_internet_access") is False
    if names and not closed:
        raise Refused(400, f"When specifying allowed domains in allowOut, you must include '{ALL}' in denyOut "
                           "(ALL_TRAFFIC) to block all other traffic")
    return dict(given)
