#!/bin/sh
# Makes the secrets of compose.yaml, each readable by the account of its container alone, and overwrites none.
# usage: sudo sh secrets.sh https://id.example [FOLDER]     (rootless: podman unshare sh secrets.sh ..)
# The certificate is yours: put id.example.crt and id.example.key beside them, owned by 101 with mode 400.
set -eu
umask 077
public_url=${1:?the address at which callers reach nginx, as in https://id.example}
folder=${2:-$(dirname "$0")/secrets}

if [ -e "$folder/zoned.yaml" ]; then
    echo "$folder/zoned.yaml exists already: nothing is changed" >&2
    exit 1
fi
mkdir -p "$folder"
random() { openssl rand -hex 32; }
postgres=$(random)
redis=$(random)

printf '%s' "$postgres" >"$folder/postgres-password"
printf 'requirepass %s\n' "$redis" >"$folder/redis.conf"
cat >"$folder/zoned.yaml" <<YAML
database_url: postgresql+asyncpg://zoned:$postgres@postgres/zoned
redis_url: redis://:$redis@redis:6379/0
key_encryption_key: $(openssl rand -base64 32)
public_url: $public_url
zone_url_template: ${public_url%%://*}://{slug}.${public_url#*://}
proxies: 1
YAML

chown 999:999 "$folder/postgres-password" "$folder/redis.conf"
chown 10001:10001 "$folder/zoned.yaml"
chmod 400 "$folder"/*
echo "made $folder; back up the key_encryption_key in zoned.yaml apart from the database"
