# One image for every service: `python -m services.placement`, and so on, or `coplace`.
FROM debian:bookworm-slim AS python
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends ca-certificates python3 \
    && rm -rf /var/lib/apt/lists/*

# What the code needs is apart from the code, so that a change of the code installs nothing anew.
FROM python AS packages
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv
WORKDIR /opt/coplace
COPY requirements.lock pyproject.toml ./
COPY deploy/compose/image/install-locked.sh /opt/tools/
RUN --mount=type=secret,id=package-env --mount=type=secret,id=package-ca \
    /opt/tools/install-locked.sh /opt/tools/proto grpcio-tools mypy-protobuf \
    && /opt/tools/install-locked.sh .venv -r pyproject.toml

FROM python
RUN useradd --uid 10001 --home-dir /tmp coplace
WORKDIR /opt/coplace
COPY --from=packages /opt/coplace/.venv .venv
COPY . .
RUN --mount=type=bind,from=packages,source=/opt/tools,target=/opt/tools \
    --mount=type=secret,id=package-env --mount=type=secret,id=package-ca \
    PATH=/opt/tools/proto/bin:$PATH deploy/generate-proto.sh generated \
    && /opt/tools/install-locked.sh .venv --no-deps --editable . \
    && .venv/bin/python -m compileall -q shared services deploy generated
# Only /tmp is written to, since the root file system is mounted read-only. One thread for numeric
# libraries: their sums depend on how many there are, and decisions must not.
ENV PATH=/opt/coplace/.venv/bin:$PATH \
    OMP_NUM_THREADS=1 \
    OPENBLAS_NUM_THREADS=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    MPLCONFIGDIR=/tmp/matplotlib
USER coplace
CMD ["coplace", "--help"]
