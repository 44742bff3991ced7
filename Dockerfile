# The trainfare command in an image: `make image`, then docker run trainfare:local worker
# No default: a tag alone may be another image tomorrow. deploy/pin_images.py writes the name with its digest.
ARG PYTHON_IMAGE

FROM ${PYTHON_IMAGE} AS build
# Where a package has no wheel (faust-streaming on ARM): --build-arg ONLY_BINARY=:none: builds it from its source.
ARG ONLY_BINARY=:all:
# The same sources at the same time make the same wheel.
ARG SOURCE_DATE_EPOCH=946684800
WORKDIR /src
# The compiler puts the kernels' machine code into the wheel; like the rest of this stage it stays behind.
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev >/dev/null && rm -r /var/lib/apt/lists/*
# Two environments: the one that builds stays here, the one that runs never holds an installer.
RUN python -m venv /opt/build && python -m venv --without-pip /opt/trainfare
# The packages come first, those of the extra `embedded` among them: a change of ours does not install them
# again. Each is checked by its hash, and a
# wheel runs no code of its own when it is installed.
COPY requirements-build.lock requirements-runtime.lock ./
RUN /opt/build/bin/pip install --no-cache-dir --require-hashes --only-binary "$ONLY_BINARY" -r requirements-build.lock \
    && /opt/build/bin/pip --python /opt/trainfare/bin/python install --no-cache-dir --require-hashes \
        --only-binary "$ONLY_BINARY" -r requirements-runtime.lock
COPY pyproject.toml setup.py README.md LICENSE ./
COPY deploy/machine_code.py deploy/machine_code_c.py deploy/sbom.py deploy/
COPY schemas schemas
COPY sinks sinks
COPY streams streams
RUN /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /src/wheel . \
    && /opt/build/bin/pip --python /opt/trainfare/bin/python install --no-cache-dir --no-deps --no-index /src/wheel/*.whl

FROM ${PYTHON_IMAGE}
ARG VERSION=0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="trainfare" \
    org.opencontainers.image.description="The taxi meter for ML training: exact cost per job and GPU, in seconds" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"
# The base image has an installer, and a copy of it in ensurepip.
RUN python -m pip uninstall --yes --root-user-action=ignore pip \
    && rm -r "$(python -c 'import ensurepip; print(ensurepip.__path__[0])')" \
    && groupadd --gid 10001 trainfare \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/trainfare --shell /usr/sbin/nologin trainfare \
    && install --directory --owner 10001 --group 10001 --mode 0700 /var/lib/trainfare
COPY --from=build /opt/trainfare /opt/trainfare
# All but /var/lib/trainfare and /tmp may be mounted read-only.
ENV PATH=/opt/trainfare/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# The build fails where something is left that installs, builds or tests.
RUN python -c "import importlib.util as u; left = [n for n in ('pip', 'ensurepip', 'setuptools', 'numba', 'pytest', 'mypy', 'ruff', 'uv', 'playwright', 'hypothesis') if u.find_spec(n)]; assert not left, left"
# What is in the image, Python's packages and Debian's, as CycloneDX.
RUN --mount=type=bind,from=build,source=/src/deploy,target=/mnt \
    python /mnt/sbom.py --version "${VERSION}" > /opt/trainfare/sbom.cdx.json
# As numbers, so that who runs the image can tell that it is not root.
USER 10001:10001
WORKDIR /var/lib/trainfare
# Of `worker` and `serve`; start other commands with --no-healthcheck.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ.get('TRAINFARE_WEB_PORT', '8787') + '/healthz', timeout=4)"]
ENTRYPOINT ["trainfare"]
CMD ["worker"]
