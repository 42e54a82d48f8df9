# An image a kind of service: EXTRA is the extra of pyproject.toml that it installs, and no other is
# in it; PACKAGES are Debian's that it has beside. Each runs `python -m services.NAME`, or `coplace`.
# Packages have stages of their own, so that a change of the code installs nothing anew.
# ca-certificates brings openssl, which makes credentials.
FROM debian:bookworm-slim AS packages
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends ca-certificates python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --home-dir /tmp coplace \
    && install -d -o coplace /archive /history /webhooks \
    && install -D -m 644 /usr/share/common-licenses/Apache-2.0 /opt/coplace/Apache-2.0.txt
LABEL org.opencontainers.image.licenses=Apache-2.0
WORKDIR /opt/coplace
COPY requirements.lock pyproject.toml ./
COPY client/pyproject.toml client/
COPY deploy/compose/image/ /opt/build/
RUN --mount=type=secret,id=package-env --mount=type=secret,id=package-ca \
    /opt/build/install-locked.sh .venv --needs "" \
    && rm -r /opt/build/uv

FROM packages AS code
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends gcc libc6-dev python3-dev
RUN --mount=type=secret,id=package-env --mount=type=secret,id=package-ca \
    /opt/build/install-locked.sh /opt/build/proto grpcio-tools mypy-protobuf
COPY . .
# Our own packages go to a folder of their own: to copy all others would mean to read them all.
RUN --mount=type=secret,id=package-env --mount=type=secret,id=package-ca \
    PATH=/opt/build/proto/bin:$PATH deploy/generate-proto.sh client \
    && /opt/build/install-locked.sh .venv --prefix /opt/build/own --no-deps \
        --editable client --editable .

FROM packages
ARG PACKAGES=""
RUN [ -z "$PACKAGES" ] || { apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends $PACKAGES \
    && rm -rf /var/lib/apt/lists/* /etc/munge/munge.key; }
ARG EXTRA=server
RUN --mount=type=secret,id=package-env --mount=type=secret,id=package-ca \
    /opt/build/install-locked.sh .venv --needs "$EXTRA" \
    && rm -r /opt/build/uv
COPY . .
COPY --from=code /opt/coplace/client client
COPY --from=code /opt/coplace/shared shared
COPY --from=code /opt/build/own .venv
RUN .venv/bin/python -m compileall -q client shared services cli deploy coplace_testing lab
# Only /tmp is written to, and the volumes of archive, history and webhooks, since the root file system is mounted read-only. One thread for numeric
# libraries: their sums depend on how many there are, and decisions must not.
ENV PATH=/opt/coplace/.venv/bin:$PATH \
    OMP_NUM_THREADS=1 \
    OPENBLAS_NUM_THREADS=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    MPLCONFIGDIR=/tmp/matplotlib
USER coplace
CMD ["coplace", "--help"]
