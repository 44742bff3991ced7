# The trainfare command in an image: docker run trainfare:local worker
FROM python:3.13-slim AS build
WORKDIR /src
RUN python -m venv /opt/trainfare
# The packages come first: a change of ours does not install them again. Each is checked by its hash.
COPY requirements.lock .
RUN /opt/trainfare/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml README.md ./
COPY schemas schemas
COPY sinks sinks
COPY streams streams
RUN /opt/trainfare/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.13-slim
# Compiled kernels are kept where the user may write.
ENV PATH=/opt/trainfare/bin:$PATH PYTHONUNBUFFERED=1 NUMBA_CACHE_DIR=/var/lib/trainfare/numba
RUN useradd --system --create-home --home-dir /var/lib/trainfare trainfare
COPY --from=build /opt/trainfare /opt/trainfare
USER trainfare
WORKDIR /var/lib/trainfare
ENTRYPOINT ["trainfare"]
CMD ["worker"]
