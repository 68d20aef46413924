"""Encryption of stored secrets; signing and verification of tokens."""
