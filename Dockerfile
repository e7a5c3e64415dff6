# The image of compose.yaml's api and scheduler; alone, `docker run` of it keeps everything in /var/lib/hardwon.

FROM python:3.11.14-slim-bookworm AS build
WORKDIR /build

# The tools that build, then hardwon with what it needs to run: nothing that differs from its hash in the lock gets in.
COPY requirements.lock ./
RUN python -m venv /tools \
    && /tools/bin/python -m pip install --quiet --no-cache-dir --disable-pip-version-check --no-compile \
        --require-hashes --no-deps -r requirements.lock

COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY hardwon hardwon
COPY knowledge knowledge
COPY orchestrator orchestrator
COPY jobs jobs
COPY migrations migrations
RUN /tools/bin/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /tools/bin/uv venv --quiet --python /usr/local/bin/python3 /opt/hardwon \
    && /tools/bin/uv pip install --quiet --no-cache --compile-bytecode --python /opt/hardwon/bin/python \
        --constraint requirements.lock "$(echo /wheels/hardwon-*.whl)[documents,mcp,otel]" \
        opentelemetry-exporter-otlp-proto-http


FROM python:3.11.14-slim-bookworm
RUN groupadd --gid 10001 hardwon \
    && useradd --uid 10001 --gid hardwon --home-dir /var/lib/hardwon --create-home --shell /usr/sbin/nologin hardwon \
    && python -m pip uninstall --quiet --yes --root-user-action=ignore setuptools wheel pip
COPY --from=build /opt/hardwon /opt/hardwon

ENV PATH=/opt/hardwon/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    ORT_DISABLE_TELEMETRY=1 \
    HARDWON_HOME=/var/lib/hardwon
USER hardwon
WORKDIR /var/lib/hardwon
VOLUME /var/lib/hardwon
EXPOSE 8420
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8420/healthz', timeout=4)"]
CMD ["hardwon", "serve", "--host", "0.0.0.0", "--port", "8420"]
