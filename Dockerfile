# The trainfare command in an image: `make image`, then docker run trainfare:local worker
# No default: a tag alone may be another image tomorrow. deploy/pin_images.py writes the name with its digest.
ARG PYTHON_IMAGE

FROM ${PYTHON_IMAGE} AS build
# Where a package has no wheel (faust-streaming on ARM): --build-arg ONLY_BINARY=:none: builds it from its source.
ARG ONLY_BINARY=:all:
WORKDIR /src
# Two environments: the one that builds stays here, the one that runs never holds an installer.
RUN python -m venv /opt/build && python -m venv --without-pip /opt/trainfare
# The packages come first, those of the extra `embedded` among them: a change of ours does not install them
# again. Each is checked by its hash, and a
# wheel runs no code of its own when it is installed.
COPY requirements-build.lock requirements-runtime.lock ./
RUN /opt/build/bin/pip install --no-cache-dir --require-hashes --only-binary "$ONLY_BINARY" -r requirements-build.lock \
    && /opt/build/bin/pip --python /opt/trainfare/bin/python install --no-cache-dir --require-hashes \
        --only-binary "$ONLY_BINARY" -r requirements-runtime.lock
COPY pyproject.toml README.md ./
COPY schemas schemas
COPY sinks sinks
COPY streams streams
RUN /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /src/wheel . \
    && /opt/build/bin/pip --python /opt/trainfare/bin/python install --no-cache-dir --no-deps --no-index /src/wheel/*.whl

FROM ${PYTHON_IMAGE}
# The base image has an installer, and a copy of it in ensurepip.
RUN python -m pip uninstall --yes --root-user-action=ignore pip \
    && rm -r "$(python -c 'import ensurepip; print(ensurepip.__path__[0])')" \
    && groupadd --gid 10001 trainfare \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/trainfare --shell /usr/sbin/nologin trainfare \
    && install --directory --owner 10001 --group 10001 --mode 0700 /var/lib/trainfare
COPY --from=build /opt/trainfare /opt/trainfare
# Compiled kernels are kept where the user may write; all else may be mounted read-only.
ENV PATH=/opt/trainfare/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 NUMBA_CACHE_DIR=/var/lib/trainfare/numba
# The build fails where something is left that installs, builds or tests.
RUN python -c "import importlib.util as u; left = [n for n in ('pip', 'ensurepip', 'setuptools', 'pytest', 'mypy', 'ruff', 'uv', 'playwright', 'hypothesis') if u.find_spec(n)]; assert not left, left"
# As numbers, so that who runs the image can tell that it is not root.
USER 10001:10001
WORKDIR /var/lib/trainfare
ENTRYPOINT ["trainfare"]
CMD ["worker"]
