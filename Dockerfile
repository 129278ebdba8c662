# One file, two images: `docker build --target collector .` and `docker build --target dashboard .`
# Each holds one installed wheel with the extra it needs, no compiler, no source tree, no root.

ARG PYTHON_IMAGE=python:3.13-slim-trixie

FROM ${PYTHON_IMAGE} AS wheel
WORKDIR /src
RUN pip install --no-cache-dir "build==1.3.0"
COPY . .
RUN python -m build --wheel --outdir /wheel .

FROM ${PYTHON_IMAGE} AS base
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    HOME=/tmp
# A fixed number, so that a volume made today is still writable for the image of tomorrow.
RUN useradd --uid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin tracehold
COPY --from=wheel /wheel /wheel

FROM base AS collector
RUN pip install "$(echo /wheel/*.whl)[collector]" && rm -r /wheel \
    && install --directory --owner=tracehold --mode=0700 /data
ENV TRACEHOLD_DATA_DIR=/data
USER tracehold
VOLUME ["/data"]
EXPOSE 4317 4318
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:4318/healthz', timeout=2)"]
ENTRYPOINT ["tracehold"]
CMD ["collect", "--host", "0.0.0.0"]

FROM base AS dashboard
RUN pip install "$(echo /wheel/*.whl)[collector,dashboard]" && rm -r /wheel
USER tracehold
EXPOSE 8501
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=2)"]
ENTRYPOINT ["tracehold"]
CMD ["dashboard", "--host", "0.0.0.0"]
