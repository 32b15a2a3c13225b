"""What all tests share, to take less time."""

import gc

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Their tensors are tiny, and threads that wait for each other cost more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def same_numbers():
    """Torch begins every process at another place; a test draws what it drew before."""
    torch.manual_seed(0)


def pytest_collection_finish():
    """What was imported stays, so nobody needs to look again and again whether it is garbage."""
    gc.freeze()
