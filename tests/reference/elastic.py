"""Workers that come and go."""

from .model import Model

MOST_WORKERS = 65_536


class ElasticModel(Model):
    def add_worker(self) -> int:
        if self.workers == MOST_WORKERS:
            raise ValueError("there are as many workers as there can be")
        worker = next(number for number in range(MOST_WORKERS) if number not in self.present)
        self.present = sorted([*self.present, worker])
        self.workers += 1
        if worker == len(self.loads):
            self.loads.append(0.0)
        return worker

    def remove_worker(self, worker: int) -> None:
        if worker not in self.present:
            raise ValueError("an absent worker cannot leave")
        if self.workers == 1:
            raise ValueError("the last worker cannot leave")
        self.present = [other for other in self.present if other != worker]
        self.workers -= 1
