# One image for every service: `python -m services.placement`, and so on, or `coplace`.
FROM debian:bookworm-slim AS python
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends ca-certificates python3 \
    && rm -rf /var/lib/apt/lists/*

FROM python AS build
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv
WORKDIR /opt/coplace
# What the packages depend on comes first, so that a change of the code installs none of them anew.
COPY requirements.lock pyproject.toml ./
COPY deploy/compose/image/install-locked.sh /usr/local/bin/
RUN --mount=type=secret,id=package-env --mount=type=secret,id=package-ca \
    install-locked.sh /opt/tools grpcio-tools mypy-protobuf \
    && install-locked.sh .venv -r pyproject.toml
COPY . .
RUN --mount=type=secret,id=package-env --mount=type=secret,id=package-ca \
    PATH=/opt/tools/bin:$PATH deploy/generate-proto.sh generated \
    && install-locked.sh .venv --no-deps --editable . \
    && .venv/bin/python -m compileall -q shared services deploy generated

FROM python
RUN useradd --uid 10001 --home-dir /tmp coplace
COPY --from=build /opt/coplace /opt/coplace
WORKDIR /opt/coplace
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
