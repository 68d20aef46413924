"""The configuration of a shop that several tests apply: one zone, and a job that may call an API there."""

SHOP = """\
apiVersion: zonewright/v1
kind: Zone
metadata: {name: shop}
spec: {name: Shop}
---
apiVersion: zonewright/v1
kind: Resource
metadata: {zone: shop, name: api}
spec: {name: API, identifier: "https://api.shop.example", application: job}
---
apiVersion: zonewright/v1
kind: Application
metadata: {zone: shop, name: job}
spec: {name: Job, dependencies: [api]}
---
apiVersion: zonewright/v1
kind: ApplicationCredential
metadata: {zone: shop, name: job}
spec: {application: job, type: password}
"""
