"""`python -m rank_bert` is the command `rank_bert`, also where the folder of scripts is not on the path."""
from .cli import program

if __name__ == "__main__":
    program()
