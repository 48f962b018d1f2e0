"""The specs of the operators; hpgen writes acme_ops/generated/ from them."""
