"""What coordinator and workers share: the program that is shipped, how a worker starts, how channels are numbered."""
