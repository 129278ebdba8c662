"""docker-compose.yml and the Dockerfile: valid, closed to the outside, and made of commands that exist."""

import importlib.resources
import json
import re
import shlex
from pathlib import Path

import jsonschema
import pytest
import yaml
from tracehold import __version__

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
SERVICES = COMPOSE["services"]
OWN = ["collector", "dashboard"]


def stage(name):
    """The instructions of one build stage, continued lines joined, comments gone."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE).replace("\\\n", " ")
    lines = [line.split(None, 1) for line in text.splitlines() if line.strip()]
    stages, current = {}, []
    for word, rest in lines:
        if word == "FROM":
            current = stages.setdefault(rest.split()[-1], [])
        current.append((word, rest))
    return stages[name]


def instruction(name, word):
    (found,) = [rest for key, rest in stage(name) if key == word]
    return found


def test_the_compose_file_is_valid():
    """By the Compose specification's own JSON schema, as check-jsonschema ships it."""
    schema = importlib.resources.files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json"
    rules = json.loads(schema.read_text("utf-8"))
    validator = jsonschema.validators.validator_for(rules)
    faults = [fault.message for fault in validator(rules).iter_errors(COMPOSE)]
    assert faults == []


def test_the_schema_would_refuse_a_mistake():
    """Guards the test above: a schema that accepts everything would prove nothing."""
    schema = importlib.resources.files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json"
    rules = json.loads(schema.read_text("utf-8"))
    wrong = {"services": {"collector": {"image": "x", "prots": ["1:1"]}}}
    with pytest.raises(jsonschema.ValidationError, match="prots"):
        jsonschema.validate(wrong, rules)


def test_the_services_are_the_three_of_the_design():
    assert set(SERVICES) == {"collector", "dashboard", "jaeger"}


@pytest.mark.parametrize("service", SERVICES)
def test_ports_are_published_on_loopback_only(service):
    assert SERVICES[service]["ports"]
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in SERVICES[service]["ports"])


@pytest.mark.parametrize(
    ("service", "ports"), [("collector", (4317, 4318)), ("dashboard", (8501,)), ("jaeger", (16686,))]
)
def test_each_service_is_found_at_its_documented_ports(service, ports):
    assert SERVICES[service]["ports"] == [f"127.0.0.1:{port}:{port}" for port in ports]


@pytest.mark.parametrize("service", OWN)
def test_a_missing_key_stops_the_start_and_says_how_to_make_one(service):
    key = SERVICES[service]["environment"]["TRACEHOLD_API_KEY"]
    assert re.fullmatch(r"\$\{TRACEHOLD_API_KEY:\?.*openssl rand -hex 24.*\}", key)


def test_no_key_is_written_down():
    text = (ROOT / "docker-compose.yml").read_text("utf-8") + DOCKERFILE
    assert not re.findall(r"(?i)(?:api_key|password|secret|token)\s*[:=]\s*['\"]?[0-9a-z]{8,}", text)


@pytest.mark.parametrize("service", SERVICES)
def test_images_are_pinned_to_a_version(service):
    assert re.search(r":\d+\.\d+\.\d+$", SERVICES[service]["image"])


def test_base_images_are_pinned_to_a_version():
    assert re.search(r"^ARG PYTHON_IMAGE=python:3\.\d+-slim-\w+$", DOCKERFILE, re.MULTILINE)
    assert "latest" not in DOCKERFILE


def test_our_images_carry_the_version_of_the_distribution():
    assert {SERVICES[service]["image"].split(":")[1] for service in OWN} == {__version__}


@pytest.mark.parametrize("service", SERVICES)
def test_nothing_runs_as_root_or_writes_to_its_image(service):
    settings = SERVICES[service]
    assert settings["user"] == "10001:10001"
    assert settings["read_only"] is True
    assert settings["cap_drop"] == ["ALL"]
    assert settings["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("target", OWN)
def test_the_images_switch_to_the_unprivileged_user_last(target):
    words = [word for word, _ in stage(target)]
    assert "RUN" not in words[words.index("USER") :]
    assert instruction(target, "USER") == "tracehold"
    assert "useradd --uid 10001" in instruction("base", "RUN")


def test_the_store_is_on_a_volume():
    assert SERVICES["collector"]["volumes"] == ["data:/data"]
    assert "data" in COMPOSE["volumes"]
    command = SERVICES["collector"]["command"]
    assert command[command.index("--data-dir") + 1] == "/data"


def test_the_collector_forwards_to_jaeger():
    command = SERVICES["collector"]["command"]
    assert command[command.index("--forward") + 1] == "http://jaeger:4318"


@pytest.mark.parametrize("service", OWN)
def test_compose_builds_a_stage_that_exists(service):
    assert SERVICES[service]["build"] == {"context": ".", "target": service}
    assert stage(service)


@pytest.mark.parametrize(("service", "path"), [("collector", "/healthz"), ("dashboard", "/_stcore/health")])
def test_health_is_asked_where_it_is_told(service, path):
    assert path in instruction(service, "HEALTHCHECK")


def test_the_dashboard_waits_for_a_healthy_collector():
    assert SERVICES["dashboard"]["depends_on"] == {"collector": {"condition": "service_healthy"}}
    assert "/healthz" in SERVICES["collector"]["healthcheck"]["test"][-1]


@pytest.mark.parametrize("service", OWN)
def test_the_commands_are_verbs_of_the_command_line(service):
    """Each verb and flag, of the image and of compose, is one that `tracehold` has."""
    typer_main = pytest.importorskip("typer.main")
    cli = pytest.importorskip("tracehold_collector.cli.app", reason="the command line is not there")
    root = typer_main.get_command(cli.app)
    entry = json.loads(instruction(service, "ENTRYPOINT"))
    assert entry == ["tracehold"]
    for command in (json.loads(instruction(service, "CMD")), SERVICES[service]["command"]):
        verb, *words = command
        options = {name for parameter in root.commands[verb].params for name in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options


def test_the_build_sees_only_what_the_wheel_is_made_of():
    rules = (ROOT / ".dockerignore").read_text("utf-8").split("\n")
    assert "*" in rules
    allowed = {rule[1:].rstrip("/") for rule in rules if rule.startswith("!")}
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    packages = set(re.findall(r'^    "(\w+)/tracehold\w*",$', project, re.MULTILINE))
    assert packages <= allowed
    assert allowed - packages == {"pyproject.toml", "README.md", "LICENSE"}


@pytest.mark.parametrize("name", ["wheel", "base", *OWN])
def test_run_instructions_are_well_formed_shell(name):
    for word, rest in stage(name):
        if word == "RUN":
            assert shlex.split(rest)
