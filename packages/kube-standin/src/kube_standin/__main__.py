"""`python -m kube_standin`."""

from kube_standin.command import main

if __name__ == "__main__":
    main()
