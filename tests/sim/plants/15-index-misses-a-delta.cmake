# Breaks the index of free slots: what an attempt takes or gives back is shown, but the index is not told.
set(PLANT_FILE scheduler/ledger_nodes.cpp)
set(PLANT_FROM [==[    if (ready && gpus != 0) free_[std::string(gpu_key)].ticks += gpus;
    index_.put_free(view);
}
]==])
set(PLANT_TO [==[    if (ready && gpus != 0) free_[std::string(gpu_key)].ticks += gpus;
}
]==])
